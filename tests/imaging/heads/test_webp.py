from __future__ import annotations

from collections.abc import Callable

import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.heads.webp import chunks, parse
from packer.types import Pixels


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("extended", [False, True])
def test_every_layout_is_read(
    lossless: bool, extended: bool, photo: Pixels, save: Callable[..., bytes]
) -> None:
    more = {"icc_profile": b"profile"} if extended else {}
    data = save(photo, "webp", lossless=lossless, **more)
    head = parse(data)
    assert (head.width, head.height, head.alpha) == (120, 80, False)
    assert head.icc.startswith(b"profile") is extended
    names = [name for name, _, _ in chunks(data)]
    assert (b"VP8X" in names) is extended
    assert (b"VP8L" in names) is lossless


@pytest.mark.parametrize("lossless", [False, True])
def test_transparency_is_told(lossless: bool, photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    image.putalpha(100)
    assert parse(save(image, "webp", lossless=lossless)).alpha


def test_completeness_is_the_size_that_the_file_says(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "webp")
    assert parse(data).complete
    assert not parse(data[:-1]).complete


@pytest.mark.parametrize("rest", [b"", b"VP8L\x05\0\0\0" + bytes(6), b"ALPH" + bytes(4)])
def test_headers_without_a_picture_are_refused(rest: bytes) -> None:
    with pytest.raises(ImageError, match="undecodable"):
        parse(b"RIFF\x40\x00\x00\x00WEBP" + rest)
