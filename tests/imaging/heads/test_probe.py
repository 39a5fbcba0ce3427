from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from packer.errors import ImageError
from packer.imaging.heads.probe import PIXEL_LIMIT, probe
from packer.imaging.heads.sniff import EXTENSIONS
from packer.types import Pixels

_STARTS = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x40\x00\x00\x00WEBPVP8X", b"GIF89a"]
_STARTS += [b"II*\x00\x08\x00\x00\x00", b"MM\x00+\x00\x08\x00\x00", b"BM" + b"\x00" * 12 + b"\x28"]


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_size_is_read_from_the_header(kind: str, photo: Pixels, save: Callable[..., bytes]) -> None:
    """Width and height must not be exchanged."""
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
    """A decompression bomb is refused by name and size, before memory is allocated."""
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
    named = "256,000,000" if kind == "gif" else "178,956,970"
    with pytest.raises(ImageError, match=named) as caught:
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


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif"])
def test_a_few_bytes_cannot_claim_a_large_picture(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Within the pixel limit, but no file of so few bytes holds so much."""
    data = bytearray(save(photo[:8, :8], kind))
    at = {"jpeg": data.find(b"\xff\xc0") + 5, "png": 16}.get(kind)
    if at is None:
        at = data.find(b"\x2c\0\0\0\0") + 5  # the first frame, which widens the screen
    form = {"jpeg": ">HH", "png": ">II", "gif": "<HH"}[kind]
    struct.pack_into(form, data, at, 13_000, 13_000)
    with pytest.raises(ImageError, match=r"(truncated|too-large): .* cannot hold"):
        probe(bytes(data))


def test_what_packs_best_is_not_refused(save: Callable[..., bytes]) -> None:
    """One colour: the fewest bytes for a pixel."""
    black = Image.new("1", (4000, 4000))
    for kind in ("png", "gif"):
        assert probe(save(black, kind)).width == 4000
    optimized = save(black.convert("L"), "jpeg", optimize=True)
    assert probe(optimized).width == 4000
    progressive = save(black.convert("L"), "jpeg", progressive=True, quality=1)
    assert probe(progressive).height == 4000


def test_a_screen_far_larger_than_its_frame_is_refused(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    """A GIF of 44 bytes took 1.7 GB."""
    data = bytearray(save(photo[:8, :8], "gif"))
    struct.pack_into("<HH", data, 6, 65_000, 2_700)
    with pytest.raises(ImageError, match="too-large: GIF whose screen"):
        probe(bytes(data))
    struct.pack_into("<HH", data, 6, 4_000, 4_000)
    assert probe(bytes(data)).width == 4_000
