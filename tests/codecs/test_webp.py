from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from packer.codecs import webp
from packer.imaging.heads.probe import probe
from packer.imaging.heads.webp import chunks
from packer.settings.options import ImageOptions
from packer.types import Pixels


def test_quality_100_is_lossless() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (41, 67, 3), dtype=np.uint8)
    payload = webp.encode(noise, ImageOptions(quality=100))
    assert np.array_equal(webp.decode(payload, 67, 41), noise)
    lossy = webp.encode(noise, ImageOptions(quality=99))
    assert not np.array_equal(webp.decode(lossy, 67, 41), noise)


@pytest.mark.parametrize("lossless", [False, True])
def test_strip_leaves_the_simple_format(
    lossless: bool, picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(picture, "webp", lossless=lossless, icc_profile=b"odd")
    stripped = webp.strip(data)
    names = [name for name, _, _ in chunks(stripped)]
    assert names == [b"VP8L" if lossless else b"VP8 "]
    assert int.from_bytes(stripped[4:8], "little") == len(stripped) - 8
    assert np.array_equal(webp.decode(stripped, 90, 60), webp.decode(data, 90, 60))


def test_transparency_and_frames_are_not_accepted(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    image = Image.fromarray(picture)
    frames = save(image, "webp", save_all=True, append_images=[image.rotate(180)])
    image.putalpha(9)
    for data in (frames, save(image, "webp")):
        assert not webp.accepts(probe(data), ImageOptions())
