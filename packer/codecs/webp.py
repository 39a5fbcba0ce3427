"""Codec webp: lossy, or lossless at quality 100, by libwebp through OpenCV."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from packer.codecs._bits import photograph_bits
from packer.codecs._size import require_size
from packer.imaging import opencv
from packer.imaging.heads.head import Head
from packer.imaging.heads.probe import probe
from packer.imaging.heads.webp import chunks
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels

EXTENSION: Final = "webp"
KIND: Final = "webp"
FOUR_BYTES: Final = False
ONE_SIZE: Final = False
OPTIONS: Final = ("quality", "reencode")
#: In pixels: sizes have 14 bits (RFC 9649).
MAX_SIDE: Final = (1 << 14) - 1
DIVISORS: Final = (1,)
FEATURE: Final = "image"

_LOSSLESS = 101  # for OpenCV any quality above 100 means lossless
#: Size in bytes relative to a JPEG of the same quality number.
_JPEG_FACTOR = 0.6


def bits_per_pixel(options: ImageOptions) -> float:
    """Return a fixed fraction of a JPEG's estimate at the same quality."""
    return photograph_bits(options.quality) * _JPEG_FACTOR


def describe(options: Mapping[str, Any]) -> str:
    """Return the quality; 100 is lossless."""
    return f"quality {options.get('quality')}"


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Encode pixels as WebP; quality 100 is lossless."""
    cv2 = opencv.load_cv2()
    quality = _LOSSLESS if options.quality == 100 else options.quality
    return opencv.encode(".webp", pixels, [cv2.IMWRITE_WEBP_QUALITY, quality])


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """Decode a WebP."""
    head = probe(bytes(payload))
    require_size((head.width, head.height), width, height)
    return opencv.decode_rgb(payload)


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """Decode a WebP, as `decode`: libwebp has no warnings, and no other decoder is used."""
    return decode(payload, width, height)


def decode_region(
    payload: bytes | memoryview,
    width: int,
    height: int,
    region: Region,
    out: Pixels | None = None,
) -> Pixels:
    """Decode a WebP whole and cut out a rectangle."""
    return region.cut(decode(payload, width, height), out)


def file_header(width: int, height: int) -> bytes:
    """Return b"": a payload is a file."""
    return b""


def accepts(head: Head, options: ImageOptions) -> bool:
    """Accept one frame without transparency, lossy or lossless."""
    return head.kind == KIND and not (head.alpha or head.animated)


def strip(data: bytes) -> bytes:
    """Return the frame in the simple file format of RFC 9649, without metadata."""
    frames = [data[start:end] for name, start, end in chunks(data) if name in (b"VP8 ", b"VP8L")]
    body = b"WEBP" + b"".join(frames[:1])
    return b"RIFF" + struct.pack("<I", len(body)) + body
