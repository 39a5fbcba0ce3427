"""JPEGs of components and samplings that simplejpeg does not read, whole and damaged."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.decode import decode
from packer.imaging.heads.probe import probe
from packer.imaging.heads.tiff import read_directory
from packer.imaging.jpeg import decode_by_simplejpeg
from packer.imaging.native import complaint
from packer.imaging.native.complaint import first_complaint
from packer.imaging.plan import plan_picture
from packer.settings.options import ImageOptions

needs_extension = pytest.mark.skipif(
    not complaint.NATIVE.is_built, reason="built without a compiler or libjpeg-turbo's headers"
)
WIDTH, HEIGHT = 160, 120
KEEPING = ImageOptions(keep_damaged=True)
#: Sampling factors of the components; simplejpeg reads none of these.
UNUSUAL = [
    ((3, 1), (1, 1), (1, 1)),
    ((2, 1), (1, 2), (1, 2)),
    ((2, 2), (2, 2), (2, 2)),
    ((1, 1), (2, 2), (1, 1)),
    ((4, 4), (1, 1), (1, 1)),
    ((2, 1), (1, 1), (1, 1), (1, 1)),
]
_EOI = b"\xff\xd9"


def _jpeg(factors: Sequence[tuple[int, int]]) -> bytes:
    """A scan for each component, as such scans of a gray picture are the same bytes."""
    draw = np.random.default_rng(1)
    tables, scans, frame = b"", b"", b""
    widest, highest = (max(pair[place] for pair in factors) for place in (0, 1))
    for number, (across, down) in enumerate(factors, 1):
        size = -(-WIDTH * across // widest), -(-HEIGHT * down // highest)
        small = Image.fromarray(draw.integers(60, 200, (8, 10), np.uint8))
        file = io.BytesIO()
        small.resize(size, Image.Resampling.BICUBIC).save(file, "jpeg", quality=90)
        data, position = file.getvalue(), 2
        tables = b""
        while data[position + 1] != 0xDA:
            end = position + 2 + struct.unpack_from(">H", data, position + 2)[0]
            tables += b"" if data[position + 1] == 0xC0 else data[position:end]
            position = end
        scans += b"\xff\xda\0\x08\1" + bytes([number, 0, 0, 63, 0]) + data[position + 10 : -2]
        frame += bytes([number, across << 4 | down, 0])
    head = struct.pack(">HBHHB", 8 + len(frame), 8, HEIGHT, WIDTH, len(factors)) + frame
    return b"\xff\xd8" + tables + b"\xff\xc0" + head + scans + _EOI


def _damaged(data: bytes) -> bytes:
    """A marker in the middle of the last scan."""
    at = (data.rfind(b"\xff\xda") + len(data)) // 2
    return data[:at] + b"\xff\xd3" + data[at + 2 :]


@needs_extension
@pytest.mark.parametrize("factors", UNUSUAL)
def test_whole_ones_are_read_and_damaged_ones_named(factors: Sequence[tuple[int, int]]) -> None:
    data = _jpeg(factors)
    with pytest.raises(ValueError, match="subsampling"):
        decode_by_simplejpeg(data, probe(data), strict=False)
    assert first_complaint(data) == ""
    expected = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    found = decode(data)
    assert np.array_equal(found.pixels, expected)
    assert "warnings" in found.notes

    for broken, reason in (
        (_damaged(data), "damaged"),
        (data[: -len(data) // 8], "truncated"),
        (data[:-2] + b"\x55" * 100 + _EOI, "damaged"),
    ):
        assert "Corrupt JPEG data" in str(first_complaint(broken.removesuffix(_EOI) + _EOI))
        with pytest.raises(ImageError) as caught:
            decode(broken)
        assert caught.value.reason == reason
        kept = decode(broken, plan_picture(probe(broken), KEEPING))
        assert "damaged" in kept.notes
        assert kept.pixels.shape == expected.shape

    assert np.array_equal(decode(data[:-2] + bytes(100) + _EOI).pixels, expected)  # padding
    assert np.array_equal(decode(data[:-2]).pixels, expected)


@pytest.mark.parametrize("factors", UNUSUAL)
def test_without_the_extension_they_are_refused_by_name(
    factors: Sequence[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complaint.NATIVE, "module", None)
    assert first_complaint(_jpeg(factors)) is None
    for data in (_jpeg(factors), _damaged(_jpeg(factors))):
        with pytest.raises(ImageError, match="only known with packer's C extensions") as caught:
            decode(data, plan_picture(probe(data), KEEPING))
        assert caught.value.reason == "unsupported"


@needs_extension
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "Empty input file"),
        (b"\xff\xd8", "end of JPEG file"),
        (b"no JPEG at all", "Not a JPEG file"),
        (_jpeg([(3, 2), (2, 1), (1, 1)]), "Fractional sampling"),
    ],
)
def test_errors_are_complaints(data: bytes, words: str) -> None:
    assert words in str(first_complaint(data))


@needs_extension
def test_what_no_decoder_has_code_for_is_unsupported() -> None:
    with pytest.raises(ImageError, match="Fractional sampling") as caught:
        decode(_jpeg([(3, 2), (2, 1), (1, 1)]))
    assert caught.value.reason == "unsupported"


def test_damage_inside_of_a_tiff_is_named() -> None:
    draw = np.random.default_rng(2)
    small = Image.fromarray(draw.integers(0, 255, (24, 32, 3), np.uint8))
    file = io.BytesIO()
    picture = small.resize((320, 240), Image.Resampling.BICUBIC)
    picture.save(file, "tiff", compression="jpeg", quality=90)
    data = file.getvalue()
    assert decode(data).pixels.shape == (240, 320, 3)
    directory = read_directory(data)
    offsets, sizes = directory.values(273), directory.values(279)
    assert len(offsets) > 1
    for offset, size in zip(offsets, sizes, strict=True):
        middle = offset + size // 2
        with pytest.raises(ImageError, match="damaged: libjpeg"):
            decode(data[:middle] + b"\xff\xd3" + data[middle + 2 :])
