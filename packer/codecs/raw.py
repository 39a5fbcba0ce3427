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
#: Pictures in one call, a thread's part of any usual mini-batch: copying one takes 10 µs, as
#: handing over the lock does.
_AT_ONCE = 1024

# numpy.lib.format, version 1.0: magic, version, uint16 length, then text padded with spaces so
# that the array starts at a multiple of 64 bytes.
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64


def bits_per_pixel(options: ImageOptions) -> float:
    """Three bytes, exactly."""
    return 24.0


def describe(options: Mapping[str, Any]) -> str:
    """Nothing: there is no choice."""
    return ""


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Pixels → their bytes, row by row."""
    height, width = pixels.shape[:2]
    if max(width, height) > MAX_SIDE:
        raise ImageError("bad-size", f"{width} x {height} pixels; raw pictures end at {MAX_SIDE}")
    return pixels.tobytes()


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """Bytes → a view of them as pixels; writable only if the payload is."""
    if len(payload) != width * height * 3:
        raise ImageError("bad-size", f"payload of {len(payload)} bytes, not {width} x {height} x 3")
    return np.frombuffer(payload, np.uint8).reshape(height, width, 3)


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """As `decode`: the payload's size is all that can be wrong."""
    return decode(payload, width, height)


def decode_region(
    payload: bytes | memoryview,
    width: int,
    height: int,
    region: Region,
    out: Pixels | None = None,
) -> Pixels:
    """Bytes → a view of the rectangle; without copying, unless it is to be written to `out`."""
    return region.cut(decode(payload, width, height), out)


def at_once(alike: bool) -> int:
    """See `packer.codecs.ManyCodec`."""
    return _AT_ONCE if alike and NATIVE.is_built else 0


def decode_pieces(
    payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
) -> Sequence[int]:
    """See `packer.codecs.ManyCodec`: done where the same is cut out of all, and only cut."""
    first = pieces[0] if pieces else None
    if first is None or first.mirrored or any(piece != first for piece in pieces):
        return range(len(payloads))
    width, height, region, _ = first
    if (region.height, region.width) != out.shape[1:3]:
        return range(len(payloads))
    done = cut_all(list(payloads), (width, height), region, out)
    return () if done else range(len(payloads))


def file_header(width: int, height: int) -> bytes:
    """The header of a .npy file of shape (height, width, 3), uint8. Written here, byte for byte
    the same under every numpy.
    """
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({height}, {width}, 3), }}"
    size = len(_MAGIC) + 2 + len(text) + 1
    text += " " * (-size % _ALIGNMENT) + "\n"
    return _MAGIC + struct.pack("<H", len(text)) + text.encode("ascii")


def accepts(head: Head, options: ImageOptions) -> bool:
    """Never: no file holds bare pixels."""
    return False


def strip(data: bytes) -> bytes:
    """As it is: nothing but pixels is in it."""
    return data
