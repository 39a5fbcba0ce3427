"""Every combination that a TIFF can have, written here byte by byte from known values: each is
either read right or refused by name.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from packer.errors import ImageError
from packer.imaging.decode import decode
from packer.imaging.tiff import prepare
from packer.types import Array, Pixels

_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK, _YCBCR = 0, 1, 2, 3, 5, 6
_SAMPLES = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3}
#: What Pillow cannot read: of these depths only gray levels and, up to 8 bits, palettes.
_GRAY_ONLY = (1, 2, 4, 12)


def _lzw(data: bytes) -> bytes:
    """With codes of nine bits alone: the table is cleared before longer ones come."""
    codes = [
        code for i, byte in enumerate(data) for code in ([256] if i % 200 == 0 else []) + [byte]
    ]
    bits = "".join(f"{code:09b}" for code in [*codes, 257])
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def _packbits(data: bytes) -> bytes:
    parts = [data[i : i + 100] for i in range(0, len(data), 100)]
    return b"".join(bytes([len(part) - 1]) + part for part in parts)


_COMPRESSIONS: Mapping[int, Callable[[bytes], bytes]] = {
    1: bytes,
    5: _lzw,
    8: zlib.compress,
    32773: _packbits,
}
_CODES = {1: "B", 3: "H", 4: "I", 7: "B"}
_Tags = Mapping[int, tuple[int, Sequence[int]]]


def _pack(rows: Array, bits: int, order: str) -> bytes:
    if bits >= 8 and bits % 8 == 0:
        return rows.astype(f"{order}u{bits // 8}").tobytes()
    digits = rows[..., None] >> np.arange(bits - 1, -1, -1) & 1
    return np.packbits(digits.reshape(len(rows), -1).astype(np.uint8), axis=1).tobytes()


def _strips(
    samples: Array, bits: int, order: str, planar: int, coding: tuple[int, int]
) -> list[bytes]:
    compression, predictor = coding
    planes = np.split(samples, samples.shape[2], axis=2) if planar == 2 else [samples]
    strips = []
    for plane, top in itertools.product(planes, range(0, len(samples), 3)):
        part = plane[top : top + 3].astype(np.int64)
        if predictor == 2:
            part = np.concatenate([part[:, :1], np.diff(part, axis=1) % (1 << bits)], axis=1)
        packed = _pack(part.reshape(len(part), -1), bits, order)
        strips.append(_COMPRESSIONS[compression](packed))
    return strips


def _file(strips: Sequence[bytes], tags: _Tags, order: str = "<", *, big: bool = False) -> bytes:
    """A TIFF or BigTIFF of one directory, its strips first."""
    body = b"".join(strips) + bytes(-len(b"".join(strips)) % 8)
    starts = np.cumsum([16, *map(len, strips)])[:-1].tolist()
    values = {**tags, 273: (4, starts), 279: (4, [len(strip) for strip in strips])}
    wide, inline = ("Q", 8) if big else ("I", 4)
    tail, entries = b"", b""
    for tag, (kind, numbers) in sorted(values.items()):
        packed = struct.pack(f"{order}{len(numbers)}{_CODES[kind]}", *numbers)
        field = packed.ljust(inline, b"\0")
        if len(packed) > inline:
            field = struct.pack(order + wide, 16 + len(body) + len(tail))
            tail += packed + bytes(-len(packed) % 8)
        entries += struct.pack(f"{order}HH{wide}", tag, kind, len(numbers)) + field
    at = 16 + len(body) + len(tail)
    start = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "H", 43 if big else 42)
    start += struct.pack(order + "HHQ", 8, 0, at) if big else struct.pack(order + "I8x", at)
    count = struct.pack(order + ("Q" if big else "H"), len(values))
    return start + body + tail + count + entries + bytes(inline)


def _tiff(
    samples: Array,
    bits: int,
    photometric: int,
    *,
    planar: int = 1,
    coding: tuple[int, int] = (1, 1),
    order: str = "<",
    big: bool = False,
    more: _Tags | None = None,
) -> bytes:
    """A TIFF of H×W×S samples; `coding` is its compression and predictor."""
    height, width, count = samples.shape
    tags: dict[int, tuple[int, Sequence[int]]] = {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [bits] * count),
        259: (3, [coding[0]]),
        262: (3, [photometric]),
        277: (3, [count]),
        278: (4, [3]),
        284: (3, [planar]),
        317: (3, [coding[1]]),
        **(more or {}),
    }
    return _file(_strips(samples, bits, order, planar, coding), tags, order, big=big)


def _rgb(samples: Array, bits: int, photometric: int, colours: Array | None = None) -> Array:
    """What the values mean, as RGB from 0 to 255."""
    levels = samples * (255 / ((1 << bits) - 1))
    if photometric == _PALETTE:
        assert colours is not None
        return colours[:, samples[..., 0]].transpose(1, 2, 0) / 257
    if photometric == _CMYK:
        return (255 - levels[..., :3]) * (255 - levels[..., 3:4]) / 255
    if photometric == _YCBCR:
        y, blue, red = levels[..., 0], levels[..., 1] - 128, levels[..., 2] - 128
        green = y - 0.344136 * blue - 0.714136 * red
        return np.stack([y + 1.402 * red, green, y + 1.772 * blue], -1).clip(0, 255)
    if photometric == _WHITE_IS_ZERO:
        levels = 255 - levels
    return np.broadcast_to(levels[..., :3], (*levels.shape[:2], 3))


def _error(pixels: Pixels, expected: Array) -> float:
    return float(np.abs(pixels - expected).max())


@pytest.mark.parametrize("planar", [1, 2])
@pytest.mark.parametrize("photometric", [0, 1, 2, 3, 5, 6])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 12, 16, 32])
def test_every_depth_and_colour_is_right_or_refused_by_name(
    bits: int, photometric: int, planar: int
) -> None:
    """In both byte orders, with every compression and predictor; odd widths, several
    strips.
    """
    if photometric == _PALETTE and bits > 8:
        pytest.skip("a palette has at most 256 colours")
    rng = np.random.default_rng(bits + photometric)
    samples = rng.integers(0, 1 << bits, (7, 11, _SAMPLES[photometric]))
    colours = rng.integers(0, 65536, (3, 1 << min(bits, 8)))
    more: dict[int, tuple[int, Sequence[int]]] = {530: (3, [1, 1])} if photometric == _YCBCR else {}
    if photometric == _PALETTE:
        more[320] = (3, colours.reshape(-1).tolist())
    read_right = bits in (8, 16) or (bits in _GRAY_ONLY and photometric in (0, 1, _PALETTE))
    if bits == 16 and photometric == _YCBCR:
        read_right = False
    for compression, order in itertools.product(_COMPRESSIONS, "<>"):
        for predictor in (1, 2) if compression in (5, 8) and bits in (8, 16) else (1,):
            coding = compression, predictor
            data = _tiff(
                samples, bits, photometric, planar=planar, coding=coding, order=order, more=more
            )
            if not read_right:
                with pytest.raises(ImageError) as caught:
                    decode(data)
                assert caught.value.reason == "unsupported"
                assert f"{bits}" in caught.value.detail
                continue
            error = _error(decode(data).pixels, _rgb(samples, bits, photometric, colours))
            # 8-bit products of 16-bit inks are rounded twice.
            assert error <= (1.01 if photometric != _CMYK else 2), (coding, order)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_bigtiff_is_read_alike(order: str, big: bool) -> None:
    for bits, photometric in ((1, 1), (8, 0), (12, 0), (12, 1), (16, 0), (16, 1)):
        samples = np.random.default_rng(1).integers(0, 1 << bits, (5, 7, 1))
        data = _tiff(samples, bits, photometric, order=order, big=big)
        if (bits, order, big) == (16, ">", True):
            with pytest.raises(ImageError, match="unsupported: BigTIFF"):
                decode(data)
            continue
        assert _error(decode(data).pixels, _rgb(samples, bits, photometric)) <= 1.01


@pytest.mark.parametrize("planar", [1, 2])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("meaning", [0, 1, 2])
def test_a_fourth_sample_is_what_its_tag_says(meaning: int, bits: int, planar: int) -> None:
    """0: nothing, 1: opacity that the colours are multiplied with, 2: opacity."""
    samples = np.random.default_rng(3).integers(0, 1 << bits, (7, 11, 4))
    samples[..., :3] = np.minimum(samples[..., :3], samples[..., 3:])
    levels = samples * (255 / ((1 << bits) - 1))
    opacity = levels[..., 3:] / 255
    expected = {
        0: levels[..., :3],
        1: levels[..., :3] + 255 * (1 - opacity),
        2: levels[..., :3] * opacity + 255 * (1 - opacity),
    }[meaning]
    data = _tiff(samples, bits, _RGB, planar=planar, more={338: (3, [meaning])})
    if planar == 2 and meaning == 0:
        with pytest.raises(ImageError, match="unsupported: TIFF of 4 planes"):
            decode(data)
        return
    assert _error(decode(data).pixels, expected) <= 3  # divided and multiplied in 8 bits


@pytest.mark.parametrize("photometric", [0, 1])
@pytest.mark.parametrize("planar", [1, 2])
@pytest.mark.parametrize("meaning", [0, 1, 2])
def test_gray_with_opacity_is_right_or_refused_by_name(
    meaning: int, planar: int, photometric: int
) -> None:
    samples = np.random.default_rng(3).integers(0, 256, (7, 11, 2))
    data = _tiff(samples, 8, photometric, planar=planar, more={338: (3, [meaning])})
    if (photometric, planar, meaning) != (_BLACK_IS_ZERO, 1, 2):
        with pytest.raises(ImageError) as caught:
            decode(data)
        assert caught.value.reason == "unsupported"
        return
    opacity = samples[..., 1:] / 255
    assert _error(decode(data).pixels, samples[..., :1] * opacity + 255 * (1 - opacity)) <= 1.01


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_samples_without_an_agreed_scale_are_refused(bits: int, kind: int) -> None:
    """Signed, floating-point, undefined, complex."""
    data = _tiff(np.ones((5, 4, 1), np.int64), bits, _BLACK_IS_ZERO, more={339: (3, [kind])})
    with pytest.raises(ImageError, match=r"unsupported: TIFF of .* no agreed scale"):
        decode(data)


@pytest.mark.parametrize("photometric", [4, 8, 9, 32844])
def test_other_colours_are_refused_by_name(photometric: int) -> None:
    """Masks, Lab, logarithmic luminance."""
    samples = np.ones((5, 4, 3 if photometric in (8, 9) else 1), np.int64)
    with pytest.raises(ImageError, match=r"unsupported: Pillow does not .* TIFF of 8-bit"):
        decode(_tiff(samples, 8, photometric))


def test_a_colour_map_of_eight_bits_is_read_as_such() -> None:
    rng = np.random.default_rng(4)
    samples, colours = rng.integers(0, 16, (7, 11, 1)), rng.integers(0, 256, (3, 16))
    data = _tiff(samples, 4, _PALETTE, more={320: (3, colours.reshape(-1).tolist())})
    assert np.array_equal(decode(data).pixels, colours[:, samples[..., 0]].transpose(1, 2, 0))


def test_colours_of_half_the_size_without_compression() -> None:
    """YCbCr's default: two by two pixels share their colour."""
    rng = np.random.default_rng(5)
    samples = rng.integers(0, 256, (8, 12, 3))
    samples[..., 1:] = np.repeat(np.repeat(samples[::2, ::2, 1:], 2, 0), 2, 1)
    blocks = samples.reshape(4, 2, 6, 2, 3).transpose(0, 2, 1, 3, 4).reshape(-1, 4, 3)
    strip = np.concatenate([blocks[..., 0], blocks[:, 0, 1:]], 1).astype(np.uint8).tobytes()
    tags: _Tags = {
        **{256: (4, [12]), 257: (4, [8]), 258: (3, [8, 8, 8]), 259: (3, [1]), 262: (3, [6])},
        **{277: (3, [3]), 278: (4, [8]), 530: (3, [2, 2])},
    }
    assert _error(decode(_file([strip], tags)).pixels, _rgb(samples, 8, _YCBCR)) <= 1.01


@pytest.mark.parametrize("tag", [34665, 34853, 330, 700, 33723, 282, 306])
@pytest.mark.parametrize("value", [8, 12, 9_999_999])
def test_broken_metadata_cost_no_picture(tag: int, value: int) -> None:
    """Broken metadata made pictures unreadable; EXIF, GPS and others point to pixels, or to
    nowhere.
    """
    samples = np.random.default_rng(6).integers(0, 256, (7, 11, 1))
    for orientation in (1, 3):
        more: _Tags = {tag: (4, [value]), 274: (3, [orientation])}
        pixels = decode(_tiff(samples, 8, _BLACK_IS_ZERO, more=more)).pixels
        expected = samples[::-1, ::-1] if orientation == 3 else samples
        assert np.array_equal(pixels, np.repeat(expected, 3, 2))


def test_rows_that_libtiff_cannot_decode_are_damage(capfd: pytest.CaptureFixture[str]) -> None:
    """Pillow passes over errors in fax-coded rows, and what they hold then is left to chance."""
    tags: _Tags = {
        **{256: (4, [64]), 257: (4, [40]), 258: (3, [1]), 259: (3, [4]), 262: (3, [0])},
        **{277: (3, [1]), 278: (4, [40])},
    }
    garbage = np.random.default_rng(7).bytes(300)
    with pytest.raises(ImageError, match="damaged: libtiff: Fax4Decode"):
        decode(_file([garbage], tags))
    assert capfd.readouterr() == ("", "")


def test_what_pillow_is_given_has_nothing_but_pixels() -> None:
    samples = np.ones((5, 4, 1), np.int64)
    data = _tiff(samples, 8, _BLACK_IS_ZERO, more={274: (3, [6]), 34665: (4, [8])})
    assert prepare(prepare(data).data).data[:8] != data[:8]
    assert b"\x12\x01\x03\x00" not in prepare(data).data[len(data) :]  # tag 274
