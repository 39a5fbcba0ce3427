"""Head of a PNG file (W3C PNG, third edition: IHDR, iCCP, eXIf, acTL)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.imaging.heads.tiff import exif_orientation

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Colour type → (mode, alpha, valid bit depths).
_COLOUR = {
    0: ("gray", False, (1, 2, 4, 8, 16)),
    2: ("rgb", False, (8, 16)),
    3: ("palette", False, (1, 2, 4, 8)),
    4: ("gray", True, (8, 16)),
    6: ("rgb", True, (8, 16)),
}
# Colour type → samples of a pixel.
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Passes of an interlaced picture: (first column, first row, columns apart, rows apart).
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
# Inflated pixel data are counted and dropped, this many bytes at a time.
_INFLATED_AT_ONCE = 1 << 20
# A profile inflates to a few kB (displays) or MB (printers); more than this is an attack.
_MAX_PROFILE = 8 << 20


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(type, start, end) of each whole chunk of a PNG, length and checksum included, up to IEND
    or to the end of a truncated file.
    """
    position = len(SIGNATURE)
    while position + 12 <= len(data):
        length: int = struct.unpack_from(">I", data, position)[0]
        end = position + 12 + length
        if end > len(data):
            return
        name = data[position + 4 : position + 8]
        yield name, position, end
        if name == b"IEND":
            return
        position = end


def only(data: bytes, names: tuple[bytes, ...]) -> bytes:
    """Keep only the chunks of these types, in their order, byte for byte."""
    return SIGNATURE + b"".join(
        data[start:end] for name, start, end in chunks(data) if name in names
    )


def parse(data: bytes) -> Head:
    """Head of a PNG file.

    Raises:
        ImageError: undecodable.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    width, height, bits, colour = struct.unpack_from(">IIBB", data, 16)
    mode, alpha, depths = _COLOUR.get(colour, ("", False, ()))
    if data[12:16] != b"IHDR" or bits not in depths or not (width and height):
        raise ImageError("undecodable", "PNG with a broken header")
    orientation, animated, icc, complete = 1, False, b"", False
    for name, start, end in chunks(data):
        body = data[start + 8 : end - 4] if name in (b"eXIf", b"iCCP") else b""
        if name == b"eXIf":
            orientation = exif_orientation(body)
        elif name == b"iCCP":
            icc = _inflate_profile(body)
        elif name == b"acTL":
            animated = True
        alpha = alpha or name == b"tRNS"
        complete = name == b"IEND"
    return Head(
        kind="png",
        width=width,
        height=height,
        orientation=orientation,
        mode=mode,
        bits=bits,
        alpha=alpha,
        animated=animated,
        icc=icc,
        complete=complete,
    )


def require_sound(data: bytes) -> None:
    """Refuse a PNG with a fault that some decoders forgive: libpng prints a warning for each such
    picture, and Pillow reads past checksums and missing ends.

    Raises:
        ImageError: undecodable, truncated.
    """
    found = list(chunks(data))
    names = [name for name, _, _ in found]
    header = found[0] if names[:1] == [b"IHDR"] else (b"", 0, 0)
    if names.count(b"IHDR") != 1 or header[2] - header[1] != 25:
        raise ImageError("undecodable", "PNG without one header at its beginning")
    if names[-1] != b"IEND" or found[-1][2] - found[-1][1] != 12:
        raise ImageError("truncated", "PNG without its end")
    if found[-1][2] != len(data):
        raise ImageError("undecodable", "PNG with bytes behind its end")
    for name, start, end in found:
        if zlib.crc32(data[start + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise ImageError("undecodable", f"PNG with a wrong checksum of {name!r}")
    missing, fault = _inflate(data)
    if fault or missing:
        raise ImageError("undecodable", f"PNG whose pixel data {fault or 'end early'}")


def require_all_pixels(data: bytes) -> None:
    """Refuse a PNG whose pixel data end before its last row: Pillow leaves the rest black.

    Raises:
        ImageError: truncated.
    """
    if _inflate(data)[0] > 0:
        raise ImageError("truncated", "PNG whose pixel data end early")


def _inflate(data: bytes) -> tuple[int, str]:
    """(bytes of pixel data that are missing, what else is wrong with them)."""
    width, height, bits, colour, method, filters, interlace = struct.unpack_from(
        ">IIBBBBB", data, 16
    )
    if method or filters or interlace > 1 or colour not in _SAMPLES:
        return 0, "have an unknown coding"
    missing = _stream_bytes(width, height, bits * _SAMPLES[colour], interlaced=interlace == 1)
    stream = zlib.decompressobj()
    try:
        for _, start, end in (part for part in chunks(data) if part[0] == b"IDAT"):
            packed = data[start + 8 : end - 4]
            while packed:
                missing -= len(stream.decompress(packed, _INFLATED_AT_ONCE))
                if missing < 0 or stream.unused_data:
                    return 0, "are more than its size"
                packed = stream.unconsumed_tail
        missing -= len(stream.flush())
    except zlib.error as error:
        return missing, f"do not inflate: {error}"
    return max(missing, 0), "" if stream.eof and missing >= 0 else "have no end"


def _stream_bytes(width: int, height: int, bits: int, *, interlaced: bool) -> int:
    """Bytes of the inflated pixel data: one filter byte and the pixels of each row."""
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    total = 0
    for left, top, across, down in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        total += rows * (1 + (columns * bits + 7) // 8) if columns > 0 else 0
    return total


def _inflate_profile(body: bytes) -> bytes:
    """Inflate the profile in an iCCP body: name, NUL, method, deflated bytes. If inflating fails,
    return the packed bytes, which are later reported as an invalid profile.
    """
    packed = body.partition(b"\x00")[2][1:]
    try:
        return zlib.decompressobj().decompress(packed, _MAX_PROFILE)
    except zlib.error:
        return packed or b"\x00"
