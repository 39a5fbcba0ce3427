"""Read the header of a picture into a `Head`: cheap, and safe with hostile input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from packer.errors import ImageError
from packer.imaging.heads import avif, bitmap, jpeg, netpbm, png, tiff, webp
from packer.imaging.heads.head import Head
from packer.imaging.heads.sniff import require_kind

#: Pictures of more pixels are refused by their header: 178,956,970 pixels, half a GiB as RGB.
#: Pillow's own limit is the same number; decoding and resizing such a picture takes up to 1.3 GB
#: (3 bytes a pixel here, 4 in Pillow).
PIXEL_LIMIT: Final = (1 << 29) // 3

#: Most pixels that one byte of a file can encode, so that a few bytes do not allocate a GiB:
#: deflate packs 1032 bytes of 8 one-bit pixels into one; a JPEG needs a bit for 64 pixels. A
#: lossless WebP of one colour has no limit: its codes take no bits.
PIXELS_PER_BYTE: Final = {"png": 1032 * 8, "jpeg": 512, "raw": 1}

_PARSERS: Final[dict[str, Callable[[bytes], Head]]] = {
    "jpeg": jpeg.parse,
    "png": png.parse,
    "webp": webp.parse,
    "bmp": bitmap.parse_bmp,
    "gif": bitmap.parse_gif,
    "tiff": tiff.parse,
    "ppm": netpbm.parse,
    "avif": avif.parse,
}


def probe(data: bytes) -> Head:
    """Read the header of a picture.

    Broken metadata (EXIF, ICC) never raises: such a picture counts as upright, and its profile is
    checked when colours are converted.

    Raises:
        ImageError: empty, unsupported, undecodable, truncated (in the header), too-large (more
            than `PIXEL_LIMIT` pixels).
    """
    kind = require_kind(data)
    try:
        head = _PARSERS[kind](data)
    except (*tiff.BROKEN, IndexError):
        raise ImageError("truncated", f"{kind.upper()} that ends within its header") from None
    require_pixel_count(head.width, head.height)
    if head.width * head.height > len(data) * PIXELS_PER_BYTE.get(head.kind, PIXEL_LIMIT):
        size = f"{head.width} x {head.height} pixels"
        raise ImageError("truncated", f"{kind.upper()} of {len(data):,} bytes cannot hold {size}")
    return head


def require_pixel_count(width: int, height: int) -> None:
    """Refuse a picture that is too large to decode.

    Raises:
        ImageError: too-large.
    """
    if width * height > PIXEL_LIMIT:
        raise ImageError(
            "too-large", f"{width} x {height} pixels, more than the limit of {PIXEL_LIMIT:,}"
        )
