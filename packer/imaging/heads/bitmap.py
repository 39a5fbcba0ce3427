"""Heads of the two simple old formats: BMP and GIF (GIF89a specification, CompuServe 1990)."""

from __future__ import annotations

import struct

from packer.errors import ImageError
from packer.imaging.heads.head import Head

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL = 0xF9
# Values of the compression field: runs of 8-bit and of 4-bit colour numbers; none and masks.
_RUNS = (1, 2)
_PLAIN = (0, 3)
# Pixels of a GIF's screen, which may be so much larger than its first frame, or of any size up to
# that of a large photo.
_SMALL_SCREEN = 1 << 24
_SCREEN_PER_FRAME = 16
# An entry of its table of 4096 has at most so many pixels, and takes more than a byte.
_PIXELS_PER_BYTE = 4096
_BMP_BITS = (1, 2, 4, 8, 16, 24, 32)


def parse_bmp(data: bytes) -> Head:
    """Head of a BMP file; a negative height means that rows run from top to bottom.

    Raises:
        ImageError: undecodable.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    header_size: int = struct.unpack_from("<I", data, 14)[0]
    if header_size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
    else:
        width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
    compression: int = struct.unpack_from("<I", data, 30)[0] if header_size >= 40 else 0
    if width > 0 and height != 0 and compression not in (*_RUNS, *_PLAIN):
        raise ImageError("unsupported", f"BMP of compression {compression}")
    if width <= 0 or height == 0 or bits not in _BMP_BITS:
        raise ImageError("undecodable", f"BMP of {width} x {height} pixels of {bits} bits")
    start: int = struct.unpack_from("<I", data, 10)[0]
    row = (width * bits + 31) // 32 * 4
    image_size: int = struct.unpack_from("<I", data, 34)[0] if header_size >= 40 else 0
    size = image_size if compression in _RUNS else row * abs(height)
    return Head(
        kind="bmp",
        width=width,
        height=abs(height),
        mode="palette" if bits <= 8 else "rgb",
        alpha=bits == 32,
        complete=start + size <= len(data),
        coding="rle" if compression in _RUNS else "",
    )


def parse_gif(data: bytes) -> Head:
    """Head of a GIF file: the screen, widened where the first frame reaches beyond it.

    Raises:
        ImageError: undecodable, truncated.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    position, frames, alpha = 13 + _table_size(flags), 0, False
    while frames < 2 and position < len(data) and data[position] != _TRAILER:
        if data[position] == _EXTENSION:
            if data[position + 1] == _GRAPHIC_CONTROL and frames == 0:
                alpha = bool(data[position + 3] & 1)
            position = _skip_blocks(data, position + 2)
        elif data[position] == _IMAGE:
            left, top, wide, high, flags = struct.unpack_from("<HHHHB", data, position + 1)
            frames += 1
            if frames == 1:
                _require_fitting(width * height, wide * high, len(data))
                width, height = max(width, left + wide), max(height, top + high)
                position = _skip_blocks(data, position + 11 + _table_size(flags))
        else:
            break
    if not (width and height):
        raise ImageError("undecodable", f"GIF of {width} x {height} pixels")
    return Head(
        kind="gif",
        width=width,
        height=height,
        mode="palette",
        alpha=alpha,
        animated=frames > 1,
        complete=position < len(data),
    )


def _require_fitting(screen: int, frame: int, size: int) -> None:
    """Refuse a GIF that allocates memory without content: 44 bytes can require half a GiB.

    Args:
        screen: Pixels of the logical screen.
        frame: Pixels of the first frame.
        size: Bytes of the file.
    """
    if frame > _PIXELS_PER_BYTE * size:
        raise ImageError("too-large", f"GIF of {size:,} bytes cannot hold {frame:,} pixels")
    if screen > _SMALL_SCREEN and screen > _SCREEN_PER_FRAME * frame:
        raise ImageError(
            "too-large", f"GIF whose screen of {screen:,} pixels has a first frame of {frame:,}"
        )


def _table_size(flags: int) -> int:
    """Bytes of the colour table that the flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _skip_blocks(data: bytes, position: int) -> int:
    """Offset after the data blocks that start here; the end of the data where they are cut."""
    while position < len(data):
        size = data[position]
        position += 1 + size
        if size == 0:
            return position
    return len(data)
