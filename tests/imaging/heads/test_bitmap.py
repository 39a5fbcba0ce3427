from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.decode import decode
from packer.imaging.heads.bitmap import parse_bmp, parse_gif
from packer.types import Array, Pixels


def test_bmp_rows_may_run_from_top_to_bottom(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = bytearray(save(photo, "bmp"))
    struct.pack_into("<i", data, 22, -80)
    head = parse_bmp(bytes(data))
    assert (head.width, head.height) == (120, 80)


def test_old_bmp_headers_are_read() -> None:
    data = b"BM" + struct.pack("<IIIIHHHH", 0, 0, 26, 12, 7, 5, 1, 24) + bytes(24 * 5)
    head = parse_bmp(data)
    assert (head.width, head.height, head.complete) == (7, 5, True)
    assert not parse_bmp(data[:-1]).complete


@pytest.mark.parametrize(("at", "value"), [(18, -5), (22, 0), (28, 30_000)])
def test_broken_bmps_are_refused(
    at: int, value: int, photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = bytearray(save(photo, "bmp"))
    struct.pack_into("<h" if at == 28 else "<i", data, at, value)
    with pytest.raises(ImageError, match="undecodable"):
        parse_bmp(bytes(data))


def test_gif_transparency_and_end_are_told(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    data = save(image, "gif")
    assert not parse_gif(data).alpha
    assert parse_gif(data).complete
    assert not parse_gif(data[: len(data) // 2]).complete
    image.putalpha(Image.new("L", image.size, 0))
    assert parse_gif(save(image, "gif")).alpha


def test_a_gif_frame_beyond_the_screen_widens_it(photo: Pixels, save: Callable[..., bytes]) -> None:
    """The frame's size counts against the limit of pixels, not only the smaller screen's."""
    data = bytearray(save(photo, "gif"))
    struct.pack_into("<HH", data, 6, 10, 10)
    head = parse_gif(bytes(data))
    assert (head.width, head.height) == (120, 80)


def _bmp(body: bytes, size: tuple[int, int], bits: int, **more: Any) -> bytes:
    """A BMP: `compression`, `masks` (red, green, blue, opacity; then the header has 108 bytes),
    `palette` (n×3 RGB).
    """
    compression, masks = more.get("compression", 0), more.get("masks")
    palette = b"".join(bytes([b, g, r, 0]) for r, g, b in more.get("palette", []))
    info = struct.pack(
        *("<IiiHHIIiiII", 108 if masks else 40, *size, 1, bits, compression, len(body)),
        *(0, 0, len(palette) // 4, 0),
    )
    if masks:
        info += struct.pack("<4I", *masks) + b"BGRs" + bytes(48)
    start = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + info + palette + body


def _rows(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + bytes(-len(row) % 4) for row in rows)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("top_down", [False, True])
def test_palettes_of_every_depth(bits: int, top_down: bool) -> None:
    rng = np.random.default_rng(bits)
    palette, numbers = rng.integers(0, 256, (1 << bits, 3)), rng.integers(0, 1 << bits, (6, 13))
    digits = numbers[..., None] >> np.arange(bits - 1, -1, -1) & 1
    packed = np.packbits(digits.reshape(6, -1).astype(np.uint8), axis=1)
    rows = _rows(row.tobytes() for row in (packed if top_down else packed[::-1]))
    data = _bmp(rows, (13, -6 if top_down else 6), bits, palette=palette.tolist())
    assert np.array_equal(decode(data).pixels, palette[numbers])


_MASKS_16 = [(0x7C00, 0x3E0, 0x1F, 0), (0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0x8000)]
_MASKS_32 = [
    *((0xFF0000, 0xFF00, 0xFF, 0), (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
    *((0xFF000000, 0xFF0000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
    *((0xFF, 0xFF00, 0xFF0000, 0), (0x3FF00000, 0xFFC00, 0x3FF, 0), (0xF00, 0xF0, 0xF, 0)),
]


@pytest.mark.parametrize(
    ("bits", "masks"), [*((16, m) for m in _MASKS_16), *((32, m) for m in _MASKS_32)]
)
@pytest.mark.parametrize("opacity", ["none", "half", "full"])
def test_masks_are_read_right_or_refused_by_name(
    bits: int, masks: tuple[int, int, int, int], opacity: str
) -> None:
    """An opacity of 0 everywhere was never set; the picture is opaque."""
    rng = np.random.default_rng(bits)
    shifts = [(mask & -mask).bit_length() - 1 for mask in masks]
    tops = [mask >> max(shift, 0) for mask, shift in zip(masks, shifts, strict=True)]
    levels = [rng.integers(0, top + 1, (6, 13)) for top in tops[:3]]
    values = np.zeros((6, 13), np.int64)
    for level, shift in zip(levels, shifts, strict=False):
        values |= level << shift
    if opacity != "none" and masks[3]:
        values |= masks[3]
        if opacity == "half":
            values[:3] &= ~masks[3]
    rows = _rows(row.astype(f"<u{bits // 8}").tobytes() for row in values[::-1])
    data = _bmp(rows, (13, 6), bits, compression=3, masks=masks)
    try:
        pixels = decode(data).pixels
    except ImageError as error:
        assert error.reason == "unsupported"
        assert masks not in [*_MASKS_16, *_MASKS_32[:4]]
        return
    expected = np.stack([level * 255 / top for level, top in zip(levels, tops, strict=False)], -1)
    if opacity == "half" and masks[3] and bits == 32:
        expected[:3] = 255
    assert np.abs(pixels - expected).max() <= 1


def _runs(numbers: Array, bits: int, way: str) -> bytes:
    """Rows from the bottom up as runs; `way`: run, literal, delta (skips three pixels), short (rows
    end early, which leaves pixels out).
    """

    def packed(row: list[int]) -> bytes:
        if bits == 8:
            return bytes(row)
        return bytes(a << 4 | b for a, b in zip(row[::2], [*row[1::2], 0], strict=False))

    def single(row: list[int]) -> bytes:
        return b"".join(b"\1" + packed([number]) for number in row)

    out = []
    for row in numbers[::-1].tolist():
        literal = packed(row)
        out.append(
            {
                "run": single(row),
                "literal": bytes([0, len(row)]) + literal + bytes(len(literal) % 2),
                "delta": single(row[:4]) + b"\0\2\3\0" + single(row[7:]),
                "short": single(row[:5]),
            }[way]
        )
    return b"\0\0".join(out) + b"\0\1"


@pytest.mark.parametrize("way", ["run", "literal", "delta", "short"])
@pytest.mark.parametrize("bits", [4, 8])
def test_runs_are_read_right_and_never_in_part(bits: int, way: str) -> None:
    """Pillow puts what follows skipped pixels at the wrong place."""
    rng = np.random.default_rng(bits)
    palette, numbers = rng.integers(0, 256, (1 << bits, 3)), rng.integers(0, 1 << bits, (6, 13))
    body = _runs(numbers, bits, way)
    if way == "delta":
        numbers[:, 4:7] = 0
    elif way == "short":
        numbers[:, 5:] = 0
    settings = {"compression": 1 if bits == 8 else 2, "palette": palette.tolist()}
    data = _bmp(body, (13, 6), bits, **settings)
    assert np.array_equal(decode(data).pixels, palette[numbers])
    for end in range(len(data) - len(body), len(data) - 2):
        with pytest.raises(ImageError) as caught:
            decode(data[:end])
        assert caught.value.reason == "truncated"


@pytest.mark.parametrize(("compression", "bits"), [(4, 0), (5, 0), (4, 24), (6, 32), (11, 8)])
def test_other_compressions_are_refused_by_name(compression: int, bits: int) -> None:
    """JPEG and PNG inside, runs of 24 bits, masks with opacity, inks."""
    with pytest.raises(ImageError, match=f"unsupported: BMP of compression {compression}"):
        decode(_bmp(bytes(999), (13, 6), bits, compression=compression))
