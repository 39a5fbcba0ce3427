"""JPEG → pixels by simplejpeg, strict about every complaint of libjpeg, with a second opinion."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from packer.errors import ImageError
from packer.imaging.head import Head
from packer.types import Array

if TYPE_CHECKING:
    from PIL.Image import Image

# Scales at which libjpeg-turbo has fast inverse transforms: 1/2, 1/4, 1/8 (jidctred.c).
_REDUCTIONS = (8, 4, 2)
_SEQUENTIAL = ("baseline", "extended")


def reduction(width: int, height: int, target: tuple[int, int] | None) -> int:
    """The largest of 8, 4, 2, 1 by which both sides can be divided while they are still at least
    twice the target's: closer, the coarse filter of a reduced transform begins to show.
    """
    if target is not None:
        for divisor in _REDUCTIONS:
            if width >= 2 * target[0] * divisor and height >= 2 * target[1] * divisor:
                return divisor
    return 1


def decode_strict(data: bytes, head: Head, divisor: int = 1, layout: str = "RGB") -> Array:
    """Decode to ceil(H/divisor) × ceil(W/divisor) uint8 pixels, not turned: three bytes each, or
    four in layout RGBX.

    Raises:
        ValueError: libjpeg had anything to complain of.
    """
    import simplejpeg

    pixels: Array = simplejpeg.decode_jpeg(
        data,
        layout,
        min_width=-(-head.width // divisor),
        min_height=-(-head.height // divisor),
        min_factor=divisor,
    )
    return pixels


def decode(data: bytes, head: Head, divisor: int, layout: str = "RGB") -> tuple[Array, bool]:
    """Decode to RGB (in `layout`, if nobody complains), not turned; also whether a decoder
    complained, but the picture is whole.

    A complaint is no verdict: stray bytes and odd markers cost no pixel. Then Pillow decides,
    and what it reads whole (at full size) is kept.

    Raises:
        ImageError: truncated, undecodable, unsupported.
    """
    _require_supported(head)
    try:
        return decode_strict(data, head, divisor, layout), False
    except ValueError as error:
        complaint = str(error)
    if not head.complete:
        return _decode_without_end(data, head), True
    from packer.imaging.pil import opened, to_pixels

    with opened(data, "jpeg") as image:
        pixels = to_pixels(image.convert("RGB"))
    if "premature end" in complaint.lower() and _lost_its_end(pixels, head):
        raise ImageError("truncated", "JPEG whose pixel data end early")
    return pixels, True


def cmyk_image(data: bytes, head: Head) -> Image:
    """A JPEG of four components as Pillow's CMYK picture, for its ICC profile to be applied.

    Raises:
        ImageError: truncated, undecodable, unsupported.
    """
    from packer.imaging.pil import opened

    decode(data, head, 1)  # the same strictness as for any other JPEG
    with opened(data, "jpeg") as image:
        if image.mode != "CMYK":
            raise ImageError("undecodable", f"CMYK JPEG that Pillow reads as {image.mode}")
        return image.copy()


def _require_supported(head: Head) -> None:
    if head.bits != 8 or head.coding in ("lossless", "hierarchical"):
        raise ImageError("unsupported", f"JPEG of {head.bits} bits, {head.coding} coding")


def _decode_without_end(data: bytes, head: Head) -> Array:
    """A sequential JPEG that lacks nothing but its end marker is whole: with the marker, libjpeg
    has nothing to complain of. A progressive one may lack scans, which nothing would tell.
    """
    if head.coding in _SEQUENTIAL:
        with contextlib.suppress(ValueError):  # then pixel data are missing too
            return decode_strict(data + b"\xff\xd9", head)
    raise ImageError("truncated", "JPEG that was cut before its end")


def _lost_its_end(pixels: Array, head: Head) -> bool:
    """Whether pixels are missing, after libjpeg ran out of data. It then repeats the last colour
    to the end, so that the last block is flat; the lost scans of a progressive JPEG leave no such
    trace and count as lost.
    """
    if head.coding not in _SEQUENTIAL:
        return True
    block = pixels[-8:, -8:]
    return bool(np.all(block == block[-1, -1]))
