"""Decode JPEGs by simplejpeg; libjpeg's warnings decide whether the pixels are damaged."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

from packer.errors import ImageError
from packer.imaging.heads import jpeg as head_jpeg
from packer.imaging.heads.head import Head
from packer.imaging.native.complaint import first_complaint
from packer.imaging.tidy_jpeg import (
    has_changed_line_ends,
    has_lost_block,
    is_padding,
    tidied,
)
from packer.types import Array

if TYPE_CHECKING:
    from PIL.Image import Image

# Scales at which libjpeg-turbo has fast inverse transforms: 1/2, 1/4, 1/8 (jidctred.c).
_REDUCTIONS = (8, 4, 2)
_SEQUENTIAL = ("baseline", "extended")


def reduction(width: int, height: int, target: tuple[int, int]) -> int:
    """The largest of 8, 4, 2, 1 that leaves both sides at least twice as long as the target's: with
    less, the coarse filter of a reduced transform becomes visible.
    """
    for divisor in _REDUCTIONS:
        if width >= 2 * target[0] * divisor and height >= 2 * target[1] * divisor:
            return divisor
    return 1


def decode_by_simplejpeg(
    data: bytes, head: Head, divisor: int = 1, layout: str = "RGB", *, strict: bool = True
) -> Array:
    """Decode to ceil(H/divisor) × ceil(W/divisor) uint8 pixels, not turned: three bytes each, or
    four in layout RGBX.

    Raises:
        ValueError: libjpeg gave a warning; if not `strict`, an error.
    """
    import simplejpeg

    pixels: Array = simplejpeg.decode_jpeg(
        data,
        layout,
        min_width=-(-head.width // divisor),
        min_height=-(-head.height // divisor),
        min_factor=divisor,
        strict=strict,
    )
    return pixels


def decode(
    data: bytes, head: Head, divisor: int, layout: str = "RGB", *, keep_damaged: bool = False
) -> tuple[Array, str]:
    """Decode to RGB (in `layout`, if libjpeg gives no warning), not turned.

    A warning alone does not mean damage: stray bytes and odd markers change no pixel. If the file
    still gives a warning without them, its pixels are damaged.

    Returns:
        The pixels, and a note: "" if there was no warning, "warnings" (decoded at full scale, not
        damaged) or "damaged" (decoded at full scale; only with `keep_damaged`).

    Raises:
        ImageError: truncated, damaged, undecodable, unsupported.
    """
    _require_supported(head)
    try:
        try:
            found = decode_by_simplejpeg(data, head, divisor, layout), ""
        except ValueError:
            found = _decode_tidied(data, head), "warnings"
        require_no_lost_block(data, head)
    except ImageError as error:
        if keep_damaged and error.reason in ("damaged", "truncated"):
            with contextlib.suppress(ImageError):  # not one whole scan can be decoded
                return _decode_anyhow(data, head), "damaged"
        raise
    return found


def cmyk_image(data: bytes, head: Head, *, keep_damaged: bool = False) -> tuple[Image, str]:
    """Decode a JPEG of four components to Pillow's CMYK picture, so that its ICC profile can be
    applied; return also the note that `decode` returns.

    Raises:
        ImageError: truncated, damaged, undecodable, unsupported.
    """
    from packer.imaging.pil import opened

    note = decode(data, head, 1, keep_damaged=keep_damaged)[1]  # as strict as any other JPEG
    with opened(tidied(data, head) if note else data, "jpeg") as image:
        if image.mode != "CMYK":
            raise ImageError("undecodable", f"CMYK JPEG that Pillow reads as {image.mode}")
        return image.copy(), note


def require_whole(data: bytes) -> None:
    """Refuse a JPEG inside of another file if its pixel data are damaged. What else may be wrong
    with it is left to that file's decoder.

    Raises:
        ImageError: truncated, damaged, unsupported.
    """
    try:
        decode(data, head_jpeg.parse(data), _REDUCTIONS[0])
    except struct.error:
        raise ImageError("truncated", "JPEG that ends within its header") from None
    except ImageError as error:
        if error.reason != "undecodable":
            raise


def require_no_lost_block(data: bytes, head: Head) -> None:
    """Refuse a JPEG with a lost block that decodes without a warning.

    Raises:
        ImageError: damaged.
    """
    if has_lost_block(data, head):
        raise ImageError("damaged", "JPEG with a run of zeros in its pixel data: a lost block")


def _require_supported(head: Head) -> None:
    if head.bits != 8 or head.coding in ("lossless", "hierarchical"):
        raise ImageError("unsupported", f"JPEG of {head.bits} bits, {head.coding} coding")


def _decode_tidied(data: bytes, head: Head) -> Array:
    """Decode a JPEG for which libjpeg gave a warning, without the bytes that change no pixel.

    A sequential JPEG that lacks only its end marker is whole. A progressive one may lack scans,
    for which libjpeg gives no warning.
    """
    clean = tidied(data, head)
    if not head.complete and head.coding not in _SEQUENTIAL:
        raise ImageError("truncated", "JPEG that was cut before its end")
    if has_changed_line_ends(data):
        raise ImageError("damaged", "JPEG whose line ends were changed in transfer (text mode)")
    try:
        return decode_by_simplejpeg(clean, head)
    except ValueError as error:
        warning = str(error)
    try:
        pixels = decode_by_simplejpeg(clean, head, strict=False)
    except ValueError:
        warning = _judge(clean, warning)
        pixels = _decode_by_pillow(clean, warning)
    if not warning or is_padding(warning, clean):
        return pixels
    if not head.complete:
        raise ImageError("truncated", f"JPEG that was cut before its end (libjpeg: {warning})")
    raise ImageError("damaged", f"libjpeg: {warning}")


def _decode_anyhow(data: bytes, head: Head) -> Array:
    """Decode the readable part of a damaged JPEG.

    Raises:
        ImageError: Nothing.
    """
    clean = tidied(data, head)
    try:
        return decode_by_simplejpeg(clean, head, strict=False)
    except ValueError as error:
        return _decode_by_pillow(clean, str(error))


def _judge(data: bytes, refusal: str) -> str:
    """Return libjpeg's first warning about a JPEG that simplejpeg cannot decode at all (such as
    unusual subsampling); "" if there is none.

    Args:
        data: The JPEG.
        refusal: simplejpeg's error.

    Raises:
        ImageError: unsupported.
    """
    warning = first_complaint(data)
    if warning is None:
        raise ImageError(
            "unsupported",
            f"{refusal}; whether such a JPEG is whole is only known with packer's C extensions",
        )
    if "implemented" in warning:  # fractional sampling, and codings that were left out
        raise ImageError("unsupported", f"libjpeg: {warning}")
    return warning


def _decode_by_pillow(data: bytes, warning: str) -> Array:
    """Decode a JPEG by Pillow, which ignores the warnings of its libjpeg.

    Raises:
        ImageError: undecodable, truncated.
    """
    try:
        from packer.imaging.pil import opened, to_pixels

        with opened(data, "jpeg") as image:
            return to_pixels(image.convert("RGB"))
    except ImportError:
        raise ImageError("undecodable", f"libjpeg: {warning}; no Pillow to try") from None
