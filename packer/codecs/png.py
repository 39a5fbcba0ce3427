"""Codec png: lossless, 8-bit RGB, by libpng through OpenCV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from packer.codecs._size import require_size
from packer.errors import ImageError
from packer.imaging import opencv
from packer.imaging.decode import decode as decode_by_pillow
from packer.imaging.heads.head import Head
from packer.imaging.heads.png import only, require_sound
from packer.imaging.heads.probe import probe
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels

EXTENSION: Final = "png"
KIND: Final = "png"
FOUR_BYTES: Final = False
ONE_SIZE: Final = False
OPTIONS: Final = ("reencode",)
#: In pixels: OpenCV's default limit (CV_IO_MAX_IMAGE_WIDTH); the format has 32 bits.
MAX_SIDE: Final = 1 << 20
DIVISORS: Final = (1,)
FEATURE: Final = "image"

# zlib level: levels above 3 take twice the time and save 2 % of the bytes on photographs.
_LEVEL = 3
# Chunks that RGB or gray without transparency needs; all others are metadata.
_NEEDED = (b"IHDR", b"IDAT", b"IEND")
#: Bits per pixel of a lossless PNG of a photograph.
_BITS = 13.0


def bits_per_pixel(options: ImageOptions) -> float:
    """Return the same estimate for all options."""
    return _BITS


def describe(options: Mapping[str, Any]) -> str:
    """Return "": no option has an effect."""
    return ""


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Encode pixels as PNG, always with the same filters and zlib level."""
    cv2 = opencv.load_cv2()
    settings = [cv2.IMWRITE_PNG_COMPRESSION, _LEVEL]
    settings += [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_DEFAULT]
    return opencv.encode(".png", pixels, settings)


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """Decode a PNG."""
    head = probe(bytes(payload))
    require_size((head.width, head.height), width, height)
    return opencv.decode_rgb(payload)


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """Decode a PNG without any error that libpng reports or tolerates, which Pillow reads alike."""
    require_sound(payload)
    expected = decode_by_pillow(payload).pixels  # first: Pillow rejects invalid filters silently
    pixels = decode(payload, width, height)
    if not np.array_equal(expected, pixels):
        raise ImageError("undecodable", "OpenCV and Pillow read it differently")
    return pixels


def decode_region(
    payload: bytes | memoryview,
    width: int,
    height: int,
    region: Region,
    out: Pixels | None = None,
) -> Pixels:
    """Decode a PNG whole and cut out a rectangle."""
    return region.cut(decode(payload, width, height), out)


def file_header(width: int, height: int) -> bytes:
    """Return b"": a payload is a file."""
    return b""


def accepts(head: Head, options: ImageOptions) -> bool:
    """Accept 8-bit gray or RGB without transparency (also no colour key) and animation."""
    return (
        head.kind == KIND
        and head.bits == 8
        and head.mode in ("gray", "rgb")
        and not (head.alpha or head.animated)
    )


def strip(data: bytes) -> bytes:
    """Remove every chunk but the header and the pixels."""
    return only(data, _NEEDED)
