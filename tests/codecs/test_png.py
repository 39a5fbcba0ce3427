from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image

from packer.codecs import png
from packer.imaging.head_png import chunks
from packer.imaging.probe import probe
from packer.options import ImageOptions
from packer.types import Pixels


def test_lossless_on_noise() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (41, 67, 3), dtype=np.uint8)
    assert np.array_equal(png.decode(png.encode(noise, ImageOptions()), 67, 41), noise)


def test_strip_keeps_the_deflated_pixels_bit_for_bit(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(picture, "png", dpi=(300, 300), icc_profile=b"profile")
    pixels = [data[start:end] for name, start, end in chunks(data) if name == b"IDAT"]
    stripped = png.strip(data)
    assert b"".join(pixels) in stripped
    assert [name for name, _, _ in chunks(stripped)] == [b"IHDR", *[b"IDAT"] * len(pixels), b"IEND"]


def test_a_transparent_colour_or_frames_are_not_accepted(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    image = Image.fromarray(picture)
    for settings in (
        {"transparency": (1, 2, 3)},
        {"save_all": True, "append_images": [image.rotate(180)]},
    ):
        assert not png.accepts(probe(save(image, "png", **settings)), ImageOptions())
    assert png.accepts(probe(save(image.convert("L"), "png")), ImageOptions())
