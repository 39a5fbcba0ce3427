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
#: Width and height are kept in 32 bits; OpenCV stops here by default (CV_IO_MAX_IMAGE_WIDTH).
MAX_SIDE: Final = 1 << 20
DIVISORS: Final = (1,)
FEATURE: Final = "image"

# zlib level: above 3, photographs take twice the time for 2 % of the bytes.
_LEVEL = 3
# All that RGB or gray without transparency needs; the rest is metadata.
_NEEDED = (b"IHDR", b"IDAT", b"IEND")
#: Bits per pixel of a lossless PNG of a photograph.
_BITS = 13.0


def bits_per_pixel(options: ImageOptions) -> float:
    """The same for all options."""
    return _BITS


def describe(options: Mapping[str, Any]) -> str:
    """Nothing: there is no choice."""
    return ""


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Pixels → PNG, always with the same filters and zlib level."""
    cv2 = opencv.load_cv2()
    settings = [cv2.IMWRITE_PNG_COMPRESSION, _LEVEL]
    settings += [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_DEFAULT]
    return opencv.encode(".png", pixels, settings)


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """PNG → pixels."""
    head = probe(bytes(payload))
    require_size((head.width, head.height), width, height)
    return opencv.decode_rgb(payload)


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """PNG → pixels, if libpng has nothing to print or to forgive and Pillow reads the same."""
    require_sound(payload)
    expected = decode_by_pillow(payload).pixels  # first: it refuses filters without printing a line
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
    """A rectangle of a PNG, which is decoded whole."""
    return region.cut(decode(payload, width, height), out)


def file_header(width: int, height: int) -> bytes:
    """Nothing: a payload is a file."""
    return b""


def accepts(head: Head, options: ImageOptions) -> bool:
    """Gray or RGB of 8 bits, without transparency (colour key included) or frames."""
    return (
        head.kind == KIND
        and head.bits == 8
        and head.mode in ("gray", "rgb")
        and not (head.alpha or head.animated)
    )


def strip(data: bytes) -> bytes:
    """Drop every chunk but the header and the pixels."""
    return only(data, _NEEDED)
