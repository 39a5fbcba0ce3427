"""Codec raw: the pixels themselves, height × width × 3 bytes; nothing to decode."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.imaging.native.cutting import NATIVE, cut_all
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.settings.parsing import MAX_SIDE as _MAX_SIDE
from packer.types import Array, Pixels

EXTENSION: Final = "npy"
KIND: Final = ""
FOUR_BYTES: Final = False
ONE_SIZE: Final = True
OPTIONS: Final = ()
MAX_SIDE: Final = _MAX_SIDE
DIVISORS: Final = (1,)
#: `datasets` decodes .npy members: height × width × 3 numbers.
FEATURE: Final = {"list": {"list": {"list": "uint8"}}}
#: Pictures in one call: more than a thread's share of a usual mini-batch. Copying one picture
#: takes 10 µs, as long as passing the interpreter lock to another thread.
_AT_ONCE = 1024

# numpy.lib.format, version 1.0: magic, version, uint16 length, then text padded with spaces so
# that the array starts at a multiple of 64 bytes.
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64


def bits_per_pixel(options: ImageOptions) -> float:
    """Return exactly three bytes."""
    return 24.0


def describe(options: Mapping[str, Any]) -> str:
    """Return "": no option has an effect."""
    return ""


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Return the bytes of the pixels, row by row."""
    height, width = pixels.shape[:2]
    if max(width, height) > MAX_SIDE:
        raise ImageError(
            "bad-size",
            f"{width} x {height} pixels; the longest side of a raw picture is {MAX_SIDE}",
        )
    return pixels.tobytes()


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """Return a view of the payload as pixels; writable only if the payload is."""
    if len(payload) != width * height * 3:
        raise ImageError("bad-size", f"payload of {len(payload)} bytes, not {width} x {height} x 3")
    return np.frombuffer(payload, np.uint8).reshape(height, width, 3)


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """Decode as `decode`: only the size of a payload can be wrong."""
    return decode(payload, width, height)


def decode_region(
    payload: bytes | memoryview,
    width: int,
    height: int,
    region: Region,
    out: Pixels | None = None,
) -> Pixels:
    """Return a view of the rectangle, or copy it to `out`."""
    return region.cut(decode(payload, width, height), out)


def at_once(alike: bool) -> int:
    """See `packer.codecs.ManyCodec`."""
    return _AT_ONCE if alike and NATIVE.is_built else 0


def decode_pieces(
    payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
) -> Sequence[int]:
    """See `packer.codecs.ManyCodec`. Done only if one rectangle is cut out of all pictures, without
    resizing or mirroring.
    """
    first = pieces[0] if pieces else None
    if first is None or first.mirrored or any(piece != first for piece in pieces):
        return range(len(payloads))
    width, height, region, _ = first
    if (region.height, region.width) != out.shape[1:3]:
        return range(len(payloads))
    done = cut_all(list(payloads), (width, height), region, out)
    return () if done else range(len(payloads))


def file_header(width: int, height: int) -> bytes:
    """Return the header of a .npy file of shape (height, width, 3), uint8. It is written here to be
    the same byte for byte with every version of numpy.
    """
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({height}, {width}, 3), }}"
    size = len(_MAGIC) + 2 + len(text) + 1
    text += " " * (-size % _ALIGNMENT) + "\n"
    return _MAGIC + struct.pack("<H", len(text)) + text.encode("ascii")


def accepts(head: Head, options: ImageOptions) -> bool:
    """Return False: no file type consists of bare pixels."""
    return False


def strip(data: bytes) -> bytes:
    """Return the data unchanged: they are pixels alone."""
    return data
