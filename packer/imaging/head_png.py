"""Head of a PNG file (W3C PNG, third edition: IHDR, iCCP, eXIf, acTL)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from packer.errors import ImageError
from packer.imaging.head import Head
from packer.imaging.head_tiff import exif_orientation

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Colour type → (mode, alpha, bit depths that may be).
_COLOUR = {
    0: ("gray", False, (1, 2, 4, 8, 16)),
    2: ("rgb", False, (8, 16)),
    3: ("palette", False, (1, 2, 4, 8)),
    4: ("gray", True, (8, 16)),
    6: ("rgb", True, (8, 16)),
}
# A profile inflates to a few kB (displays) or MB (printers); more than this is an attack.
_MAX_PROFILE = 8 << 20


def chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(type, start, end) of each whole piece of a PNG, length and checksum included, up to IEND
    or to where the file was cut.
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
    """A PNG with the chunks of these types alone, in their order, byte for byte."""
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


def _inflate_profile(body: bytes) -> bytes:
    """The profile in an iCCP body: name, NUL, method, deflated bytes. What cannot be inflated is
    handed on as it is: it is no profile, and is reported as such.
    """
    packed = body.partition(b"\x00")[2][1:]
    try:
        return zlib.decompressobj().decompress(packed, _MAX_PROFILE)
    except zlib.error:
        return packed or b"\x00"
