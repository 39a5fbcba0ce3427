from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from packer.errors import ImageError
from packer.imaging.probe import PIXEL_LIMIT, probe
from packer.imaging.sniff import EXTENSIONS
from packer.types import Pixels

_STARTS = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x40\x00\x00\x00WEBPVP8X", b"GIF89a"]
_STARTS += [b"II*\x00\x08\x00\x00\x00", b"MM\x00+\x00\x08\x00\x00", b"BM" + b"\x00" * 12 + b"\x28"]


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_size_is_read_from_the_header(kind: str, photo: Pixels, save: Callable[..., bytes]) -> None:
    """H506: width and height are not swapped."""
    head = probe(save(photo, kind))
    assert (head.kind, head.width, head.height) == (kind, 120, 80)
    assert head.upright_size == (120, 80)
    assert head.complete
    assert not head.animated


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_read_from_every_kind_that_has_one(
    kind: str, orientation: int, photo: Pixels, save: Callable[..., bytes]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    head = probe(save(photo, kind, exif=exif))
    assert head.orientation == orientation
    assert head.upright_size == ((80, 120) if orientation >= 5 else (120, 80))


@pytest.mark.parametrize("kind", ["gif", "png", "webp", "tiff"])
def test_more_frames_than_one_are_told(
    kind: str, draw_photo: Callable[..., Pixels], save: Callable[..., bytes]
) -> None:
    first, second = (Image.fromarray(draw_photo(40, 30, seed)) for seed in (1, 2))
    data = save(first, kind, save_all=True, append_images=[second])
    assert probe(data).animated
    assert not probe(save(first, kind)).animated


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff"])
def test_profile_is_found(kind: str, photo: Pixels, save: Callable[..., bytes]) -> None:
    profile = bytes(range(256)) * 400  # more than one JPEG segment of 65,519 bytes holds
    assert probe(save(photo, kind, icc_profile=profile)).icc[: len(profile)] == profile


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "bmp", "tiff", "gif"])
def test_a_picture_of_too_many_pixels_is_refused_from_its_header(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    """CV21: by name and number, before memory is taken."""
    wide, high = 16_000, 16_000
    data = bytearray(save(photo, kind))
    at = {"jpeg": data.find(b"\xff\xc0") + 5, "png": 16, "bmp": 18, "gif": 6}.get(kind, 0)
    if kind == "webp":
        at = data.find(b"\x9d\x01\x2a") + 3
    if kind == "tiff":
        for tag, value in ((256, wide), (257, high)):
            at = data.find(struct.pack("<HH", tag, 4))
            struct.pack_into("<I", data, at + 8, value)
    else:
        form = {"jpeg": ">HH", "png": ">II", "bmp": "<ii", "gif": "<HH", "webp": "<HH"}[kind]
        struct.pack_into(form, data, at, wide, high)
    with pytest.raises(ImageError, match="178,956,970") as caught:
        probe(bytes(data))
    assert caught.value.reason == "too-large"
    assert PIXEL_LIMIT == 178_956_970


@settings(max_examples=150, deadline=None)
@given(start=st.sampled_from(_STARTS), rest=st.binary(max_size=200))
def test_hostile_headers_give_a_head_or_an_image_error(start: bytes, rest: bytes) -> None:
    try:
        head = probe(start + rest)
    except ImageError as error:
        assert error.detail
    else:
        assert head.width > 0
        assert head.height > 0
        assert 1 <= head.orientation <= 8
