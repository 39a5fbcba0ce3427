"""Files with one fault each: harmless faults pass, faults that damage pixels are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import simplejpeg

from packer.errors import ImageError
from packer.imaging.decode import decode
from packer.imaging.heads.jpeg import parse, segments
from packer.imaging.tidy_jpeg import has_lost_block, tidied
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.types import Pixels
from tests.fixtures import Save

_KINDS = ("plain", "optimized", "restarts", "progressive", "gray")


@pytest.fixture(scope="module", params=_KINDS)
def data(request: pytest.FixtureRequest, draw_photo: Callable[..., Pixels], save: Save) -> bytes:
    """A photo of some 20 kB, whatever its coding."""
    coding: dict[str, dict[str, Any]] = {
        "optimized": {"optimize": True},
        "restarts": {"restart_marker_rows": 1},
        "progressive": {"progressive": True},
    }
    photo = draw_photo(320, 240, 3)
    if request.param == "gray":
        return bytes(simplejpeg.encode_jpeg(photo[..., :1].copy(), 95, "GRAY", "Gray"))
    return save(photo, "jpeg", quality=95, **coding.get(request.param, {}))


def _before(data: bytes, marker: bytes, stray: bytes) -> bytes:
    at = data.find(marker)
    return data[:at] + stray + data[at:]


def _with_jfif_version(data: bytes) -> bytes:
    return data.replace(b"JFIF\0\x01", b"JFIF\0\x09", 1)


def _with_scan_parameters(data: bytes) -> bytes:
    """Last coefficient 0 instead of 63, as some cameras write it."""
    at = data.find(b"\x00\x3f\x00", data.find(b"\xff\xda"))
    return data[:at] + b"\x00\x00\x00" + data[at + 3 :]


_ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
_ICC = b"\xff\xe2\x00\x14ICC_PROFILE\x00\x01\x02abcd"
_HARMLESS: dict[str, Callable[[bytes], bytes]] = {
    "garbage appended": lambda data: data + b"garbage" * 99,
    "two ends": lambda data: data + b"\xff\xd9",
    "garbage between segments": lambda data: _before(data, b"\xff\xdb", b"junk\0\0\x12"),
    "garbage before the scan": lambda data: _before(data, b"\xff\xda", b"\0" * 300),
    "unknown JFIF": _with_jfif_version,
    "unknown Adobe transform": lambda data: data[:2] + _ADOBE + b"\x09" + data[20:],
    "broken profile": lambda data: _before(data, b"\xff\xdb", _ICC),
    "broken EXIF": lambda data: _before(data, b"\xff\xdb", b"\xff\xe1\x00\x0aExif\0\0II"),
    "fill bytes": lambda data: _before(data, b"\xff\xd9", b"\xff" * 20),
    "padding of zeros": lambda data: _before(data, b"\xff\xd9", bytes(700)),
    "zeros and another picture behind": lambda data: data + bytes(4096) + data,
}
_SEQUENTIAL_ONLY: dict[str, Callable[[bytes], bytes]] = {
    "no end marker": lambda data: data[:-2],
    "scan parameters": _with_scan_parameters,
}


@pytest.mark.parametrize("fault", [*_HARMLESS, *_SEQUENTIAL_ONLY])
def test_what_costs_no_pixel_costs_no_picture(fault: str, data: bytes) -> None:
    progressive = parse(data).coding == "progressive"
    if progressive and fault in _SEQUENTIAL_ONLY:
        pytest.skip("nothing would tell how many scans are missing")
    file = {**_HARMLESS, **_SEQUENTIAL_ONLY}[fault](data)
    assert file != data
    picture = decode(file)
    assert np.array_equal(picture.pixels, decode(data).pixels)
    assert "damaged" not in picture.notes


def _middle(data: bytes) -> int:
    start = next(end for marker, _, end in segments(data) if marker == 0xDA)
    return (start + len(data)) // 2


def _cut(part: float) -> Callable[[bytes], bytes]:
    return lambda data: data[: int(len(data) * part)]


def _without_restarts(data: bytes) -> bytes:
    at = data.find(b"\xff\xd3")
    return data[:at] + data[at + 2 :] if at > 0 else data[: _middle(data)] + b"\xff\xd9"


_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "4 KiB of zeros": lambda d: d[: _middle(d)] + bytes(4096) + d[_middle(d) + 4096 :],
    "512 bytes of zeros": lambda d: d[: _middle(d)] + bytes(512) + d[_middle(d) + 512 :],
    "bytes of one": lambda d: d[: _middle(d)] + b"\xff" * 512 + d[_middle(d) + 512 :],
    "512 bytes lost": lambda d: d[: _middle(d)] + d[_middle(d) + 512 :],
    "512 bytes twice": lambda d: d[: _middle(d) + 512] + d[_middle(d) :],
    "its own first half again": lambda d: d[: _middle(d)] + d[_middle(d) // 2 :],
    "CRLF for LF": lambda d: d.replace(b"\n", b"\r\n"),
    "cut, end pasted on": lambda d: d[: len(d) * 6 // 10] + b"\xff\xd9",
    "missing restart marker": _without_restarts,
    "pixels left over": lambda d: _before(d, b"\xff\xd9", d[_middle(d) : _middle(d) + 99]),
    "cut at 30 %": _cut(0.3),
    "cut at 60 %": _cut(0.6),
    "cut at 99 %": _cut(0.99),
}


@pytest.mark.parametrize("fault", _DAMAGE)
def test_damaged_pixels_are_refused_by_name(fault: str, data: bytes) -> None:
    """With each fault that libjpeg reports, and with a run of zeros that it decodes."""
    file = _DAMAGE[fault](data)
    for options in (ImageOptions(), ImageOptions(size=(64, 64))):
        with pytest.raises(ImageError) as caught:
            transcode(file, options)
        reasons = {"truncated"} if fault.startswith("cut at") else {"damaged"}
        if fault == "CRLF for LF":
            reasons |= {"undecodable", "truncated"}  # its header may be destroyed as well
        assert caught.value.reason in reasons
        assert caught.value.detail


@pytest.mark.parametrize("fault", sorted(set(_DAMAGE) - {"CRLF for LF"}))
def test_on_request_damaged_pixels_are_stored_and_noted(fault: str, data: bytes) -> None:
    file = _DAMAGE[fault](data)
    encoded = transcode(file, ImageOptions(keep_damaged=True))
    assert (encoded.width, encoded.height) == (320, 240)
    assert "damaged" in encoded.notes
    assert "kept" not in encoded.notes
    simplejpeg.decode_jpeg(encoded.payload)  # what is stored gives no complaint
    whole = transcode(data, ImageOptions(keep_damaged=True))
    assert whole == transcode(data, ImageOptions())


def test_a_lost_block_is_found_where_libjpeg_is_silent(save: Save) -> None:
    """Zeros decode to some picture or other; by chance to as many pixels as were lost."""
    noise = np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8)
    data = save(np.repeat(noise[..., None], 3, 2), "jpeg", quality=95, subsampling=0)
    scan = next(end for marker, _, end in segments(data) if marker == 0xDA)
    assert not has_lost_block(data, parse(data))
    lost = data[:scan] + bytes(256) + data[scan + 256 :]
    assert has_lost_block(lost, parse(lost))
    before = data[:20] + b"\xff\xfe\x03\x02" + bytes(768) + data[20:]
    assert not has_lost_block(before, parse(before))


def test_flat_pictures_with_optimized_tables_hold_runs_of_zeros(save: Save) -> None:
    """There they are the code of what is flat."""
    white = np.full((2000, 2000, 3), 255, np.uint8)
    white[:8, :8] = np.random.default_rng(1).integers(0, 256, (8, 8, 3), np.uint8)
    data = save(white, "jpeg", optimize=True)
    assert bytes(256) in data
    assert transcode(data, ImageOptions()).notes == ("kept",)
    assert transcode(data, ImageOptions(size=(64, 64))).notes == ()


def test_a_tidied_file_is_the_same_picture_and_stays_as_it_is(data: bytes) -> None:
    head = parse(data)
    clean = tidied(data, head)
    assert np.array_equal(simplejpeg.decode_jpeg(clean), simplejpeg.decode_jpeg(data))
    assert tidied(clean, head) == clean
