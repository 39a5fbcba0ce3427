"""Head of a WebP file (RFC 9649)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.imaging.heads.tiff import exif_orientation

_ALPHA, _ANIMATION = 0x10, 0x02


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(type, start, end) of each chunk of a WebP, its 8-byte header and padding included; the
    last chunk may extend beyond the end of a truncated file.
    """
    position = 12
    while position + 8 <= len(data):
        size: int = struct.unpack_from("<I", data, position + 4)[0]
        end = position + 8 + size + size % 2
        yield data[position : position + 4], position, end
        position = end


def parse(data: bytes) -> Head:
    """Head of a WebP file.

    Raises:
        ImageError: truncated, undecodable.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    riff_end = 8 + int(struct.unpack_from("<I", data, 4)[0])
    size: tuple[int, int] | None = None
    orientation, alpha, animated, icc = 1, False, False, b""
    for name, start, end in chunks(data[:riff_end]):
        if name == b"VP8X":
            flags = data[start + 8]
            alpha, animated = bool(flags & _ALPHA), bool(flags & _ANIMATION)
            canvas = data[start + 12 : start + 18].ljust(6, b"\x00")
            size = (
                1 + int.from_bytes(canvas[:3], "little"),
                1 + int.from_bytes(canvas[3:], "little"),
            )
        elif name in (b"VP8 ", b"VP8L"):
            frame_size, frame_alpha = _frame(name, data, start + 8)
            size, alpha = size or frame_size, alpha or frame_alpha
        elif name == b"ICCP":
            icc = data[start + 8 : end]
        elif name == b"EXIF":
            orientation = exif_orientation(data[start + 8 : end])
    if size is None or not all(size):
        raise ImageError("undecodable", "WebP without a picture")
    return Head(
        kind="webp",
        width=size[0],
        height=size[1],
        orientation=orientation,
        alpha=alpha,
        animated=animated,
        icc=icc,
        complete=riff_end <= len(data),
    )


def _frame(name: bytes, data: bytes, start: int) -> tuple[tuple[int, int], bool]:
    """((width, height), may have transparent pixels) of a lossy (RFC 6386, 9.1) or lossless
    frame.
    """
    if name == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, start + 6)
        return (width & 0x3FFF, height & 0x3FFF), False
    signature, bits = struct.unpack_from("<BI", data, start)
    if signature != 0x2F:
        raise ImageError("undecodable", "WebP with a broken lossless header")
    return (1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)), bool(bits >> 28 & 1)
