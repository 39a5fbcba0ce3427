from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from packer.errors import ImageError
from packer.imaging.heads.jpeg import MAX_SCANS, parse, require_few_scans
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.types import Pixels


@pytest.mark.parametrize(
    ("sampling", "name"), [("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0"), ("440", "")]
)
def test_subsampling_is_read(sampling: str, name: str, photo: Pixels) -> None:
    head = parse(simplejpeg.encode_jpeg(photo, colorsubsampling=sampling))
    assert (head.subsampling, head.mode, head.coding) == (name, "ycc", "baseline")


def test_coding_and_components_are_read(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    assert parse(save(image, "jpeg", progressive=True)).coding == "progressive"
    assert parse(save(image.convert("L"), "jpeg")).mode == "gray"
    assert parse(save(image.convert("CMYK"), "jpeg")).mode == "cmyk"
    assert parse(save(image, "jpeg", keep_rgb=True)).mode == "rgb"


def test_padding_and_stray_bytes_between_segments_are_passed_over(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "jpeg")
    at = data.find(b"\xff\xc0")
    head = parse(data[:at] + b"\x01\x02\x03\xff\xff" + data[at:])
    assert (head.width, head.height) == (120, 80)


def test_a_profile_in_several_segments_is_joined_in_their_order(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    profile = np.random.default_rng(0).bytes(150_000)
    data = save(photo, "jpeg", icc_profile=profile)
    assert data.count(b"ICC_PROFILE\0") == 3
    assert parse(data).icc == profile


def _with_parts(data: bytes, parts: list[tuple[int, int, bytes]]) -> bytes:
    """A JPEG with parts of a profile: number, count, bytes."""
    segments = [
        b"\xff\xe2"
        + struct.pack(">H", 16 + len(part))
        + b"ICC_PROFILE\0"
        + bytes([number, count])
        + part
        for number, count, part in parts
    ]
    return data[:2] + b"".join(segments) + data[2:]


def test_parts_of_a_profile_are_joined_by_their_numbers(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Whatever their order in the file; one that is missing or there twice leaves no profile."""
    data = save(photo, "jpeg")
    whole = [(1, 3, b"one "), (2, 3, b"two "), (3, 3, b"three")]
    for order in itertools.permutations(whole):
        assert parse(_with_parts(data, list(order))).icc == b"one two three"
    for parts in (
        *([part for part in whole if part != missing] for missing in whole),
        [*whole, whole[1]],
        [whole[0], whole[0], whole[2]],
        [(0, 3, b"one "), (1, 3, b"two "), (2, 3, b"three")],
        [(1, 3, b"one "), (2, 3, b"two "), (3, 2, b"three")],
        [(1, 0, b"one")],
    ):
        broken = _with_parts(data, parts)
        assert transcode(broken, ImageOptions()).notes == ("icc-ignored", "kept")
        assert transcode(broken, ImageOptions(size=(40, 40))).notes[0] == "icc-ignored"


def test_completeness_is_an_end_marker_behind_the_first_scan(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    """A truncated picture must be found; the end marker of a thumbnail does not count."""
    data = save(photo, "jpeg", exif=b"Exif\0\0\xff\xd8\xff\xd9")
    assert parse(data).complete
    assert not parse(data[:-2]).complete


def test_thousands_of_segments_are_refused() -> None:
    with pytest.raises(ImageError, match="4096 segments"):
        parse(b"\xff\xd8" + b"\xff\xfe\x00\x02" * 100_000)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xd8\xff\xe0\x00\x04ab", "truncated"),
        (b"\xff\xd8\xff\xda\x00\x02\xff\xd9", "undecodable"),
        (b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x00\x00\x05\x01\x01\x11\x00\xff\xd9", "undecodable"),
    ],
)
def test_headers_without_a_picture(data: bytes, reason: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize("count", [80, 300])
def test_scans_without_end_are_refused_by_name(
    count: int, photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Each goes through the whole picture, whatever little it adds."""
    data = save(photo, "jpeg", progressive=True)
    scan = data.rfind(b"\xff\xda")
    many = data[:scan] + data[scan:-2] * count + b"\xff\xd9"
    if count < MAX_SCANS:
        assert parse(many).coding == "progressive"
        return
    with pytest.raises(ImageError, match=r"too-large: JPEG of 3\d\d scans, more than 100"):
        parse(many)
    # Those of another picture behind it do not count.
    assert parse(data + many).coding == "progressive"


def test_scans_of_a_sequential_file_are_counted_where_it_has_several(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "jpeg")
    scan = data.rfind(b"\xff\xda")
    single = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + bytes(5)
    with pytest.raises(ImageError, match="too-large: JPEG of 200 scans"):
        parse(data[:scan] + single * 200 + b"\xff\xd9")


@pytest.mark.parametrize("layout", [{}, {"progressive": True}, {"quality": 30}])
def test_a_reader_counts_scans_too(
    layout: dict[str, object], photo: Pixels, save: Callable[..., bytes]
) -> None:
    whole = save(photo, "jpeg", **layout)
    scan = whole.rfind(b"\xff\xda")
    single = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + bytes(5)
    again = whole[scan:-2] if "progressive" in layout else single
    few, many = (
        whole[:scan] + again * count + whole[-2:] for count in (MAX_SCANS - 20, MAX_SCANS + 20)
    )
    metadata = b"\xff\xe1\xff\xff" + b"\xff\xda" * 32766 + b"\0"
    for start in (b"\xff\xd8", b"\xff\xd8" + metadata, b"\xff\xd8\x00\x00\xff"):
        for right in (whole, few, whole + many, whole[:scan], b"\xff\xd8"):
            require_few_scans(memoryview(start + right[2:]))
        with pytest.raises(ImageError, match=r"too-large: JPEG of 1\d\d scans"):
            require_few_scans(memoryview(start + many[2:]))
