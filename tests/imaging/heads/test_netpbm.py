"""Values are worked out by hand from the manual pages pbm(5), pgm(5) and ppm(5)."""

from __future__ import annotations

import numpy as np
import pytest

from packer.errors import ImageError
from packer.imaging import opencv
from packer.imaging.decode import decode
from packer.imaging.heads.netpbm import parse
from packer.imaging.heads.probe import probe

#: File, rows of gray values or of RGB triples, notes. Values up to another maximum than 255 are
#: scaled: round(value / maximum * 255).
_CASES = {
    "pbm": (b"P1\n# a bitmap\n3 2\n1 0 1\n010\n", [[0, 255, 0], [255, 0, 255]], ("gray",)),
    "pbm without spaces": (b"P1 2 2 1001", [[0, 255], [255, 0]], ("gray",)),
    "pgm": (b"P2 3 1 255 0 128\n255", [[0, 128, 255]], ("gray",)),
    "pgm, comment in the pixels": (b"P2 2 1 255 7 # seven\n 8", [[7, 8]], ("gray",)),
    "pgm to 15": (b"P2 3 1 15 0 8 15", [[0, 136, 255]], ("gray",)),
    "pgm to 65535": (
        b"P2 4 1 65535 0 200 25700 65535", [[0, 1, 100, 255]], ("16-bit", "gray")
    ),
    "ppm": (b"P3 2 1 255 1 2 3 4 5 6", [[[1, 2, 3], [4, 5, 6]]], ()),
    "ppm to 1000": (b"P3 1 1 1000 0 500 1000", [[[0, 128, 255]]], ("16-bit",)),
    "raw pbm": (b"P4 10 2\n\xaa\x80\x55\x40", [[0, 255] * 5, [255, 0] * 5], ("gray",)),
    "raw pgm": (b"P5 3 1 255\n\x00\x80\xff", [[0, 128, 255]], ("gray",)),
    "raw pgm, white space as pixels": (b"P5\n2 1\n255\n\n#", [[10, 35]], ("gray",)),
    "raw pgm to 15": (b"P5 3 1 15\n\x00\x08\x0f", [[0, 136, 255]], ("gray",)),
    "raw pgm to 4095": (
        b"P5 3 1 4095\n\x00\x00\x08\x00\x0f\xff", [[0, 128, 255]], ("16-bit", "gray")
    ),
    "raw pgm to 65535": (b"P5 2 1 65535\n\x01\x2c\xff\x00", [[1, 254]], ("16-bit", "gray")),
    "raw ppm": (
        b"P6 # one\n#two\n2#three\n #four 9\n1\n255\n\x01\x02\x03\x04\x05\x06",
        [[[1, 2, 3], [4, 5, 6]]],
        (),
    ),
    "raw ppm, DOS line ends": (b"P6\r\n1 1\r\n255\n\x01\x02\x03", [[[1, 2, 3]]], ()),
    "raw ppm to 15": (b"P6 1 1 15\n\x00\x01\x0d", [[[0, 17, 221]]], ()),
    "raw ppm to 65535": (
        b"P6 1 1 65535\n\x01\x01\x80\x00\xff\xff", [[[1, 128, 255]]], ("16-bit",)
    ),
    "two raw pictures": (b"P5 1 1 255\n\x07P5 1 1 255\n\x09", [[7]], ("gray", "animation")),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_CASES))
def test_pixels_are_those_of_the_specification(name: str) -> None:
    data, rows, notes = _CASES[name]
    expected = np.array(rows, np.uint8)
    if expected.ndim == 2:
        expected = np.repeat(expected[:, :, None], 3, 2)
    picture = decode(data)
    assert picture.pixels.tolist() == expected.tolist()
    assert sorted(picture.notes) == sorted(notes)
    head = probe(data)
    assert (head.width, head.height) == (picture.width, picture.height)


@pytest.mark.parametrize("kind", ["P4 33 9\n", "P5 33 9 255\n", "P6 33 9 255\n"])
def test_opencv_reads_the_same_of_eight_bits(kind: str) -> None:
    rng = np.random.default_rng(0)
    data = kind.encode() + rng.integers(0, 256, 33 * 9 * 3, np.uint8).tobytes()
    data = data[: len(kind) + {"P4": 5 * 9, "P5": 33 * 9, "P6": 33 * 9 * 3}[kind[:2]]]
    assert decode(data).pixels.tolist() == opencv.decode_rgb(data).tolist()


@pytest.mark.parametrize("name", sorted(_CASES))
def test_files_that_were_cut_are_truncated(name: str) -> None:
    data, _, _ = _CASES[name]
    plain = data[1:2] in b"123"
    # A plain file that ends within its last number, or behind it, is whole.
    whole = len(data.rstrip()) if plain else data.rfind(b"P5") if b"two" in name.encode() else 0
    for length in range(2, whole or len(data)):
        if (
            plain
            and data[length - 1 : length].isdigit()
            and not data[length:].strip(b"0123456789\n")
        ):
            continue
        with pytest.raises(ImageError) as caught:
            decode(data[:length])
        assert caught.value.reason == "truncated", data[:length]


@pytest.mark.parametrize(
    "data",
    [b"P5 0 1 255\n", b"P5 1 1 0\n\0", b"P5 1 1 65536\n\0\0", b"P6 one 1 255\n", b"P6 -1 1 255\n"],
)
def test_headers_without_sense_are_refused(data: bytes) -> None:
    with pytest.raises(ImageError, match="undecodable"):
        parse(data)


def test_a_plain_value_above_the_maximum_is_refused() -> None:
    with pytest.raises(ImageError, match="undecodable"):
        decode(b"P2 2 1 15 3 16")


def test_a_header_that_claims_too_many_pixels_is_refused() -> None:
    with pytest.raises(ImageError, match="too-large"):
        decode(b"P6 100000 100000 255\n")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"P7\nWIDTH 1\n", "PAM"),
        (b"PF\n1 1\n-1.0\n" + bytes(12), "PFM"),
        (b"Pf\n1 1\n1.0\n", "PFM"),
    ],
)
def test_other_formats_of_the_family_are_named(data: bytes, name: str) -> None:
    with pytest.raises(ImageError, match=f"unsupported: {name} is not converted"):
        decode(data)
