"""A picture's bytes → upright RGB pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from packer.errors import ImageError
from packer.imaging import colour, jpeg, opencv, pil, tiff
from packer.imaging.colour import Conversion
from packer.imaging.heads import png
from packer.imaging.heads.head import TRANSPOSED
from packer.imaging.heads.probe import probe, require_pixel_count
from packer.imaging.orient import Box, turn, turn_box
from packer.imaging.plan import PicturePlan, plan_picture
from packer.settings.options import ImageOptions
from packer.types import Array

if TYPE_CHECKING:
    from PIL.Image import Image

_DEFAULTS: Final = ImageOptions()
# Chunks of a PNG that decide its pixels. Without an animation's chunks the default image remains.
_PNG_PIXELS: Final = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")


@dataclass(frozen=True, slots=True)
class Decoded:
    """An upright picture.

    Attributes:
        pixels: H×W×3 uint8 RGB, or H×W×4 with a meaningless fourth byte if the plan has
            `four_bytes`; H and W are smaller than `height` and `width` if a JPEG was decoded at
            a reduced scale.
        width: Width of the whole upright picture at full scale, in pixels.
        height: Height of the whole upright picture at full scale, in pixels.
        box: The part of `pixels` that is picture: at a reduced scale, the last column and row may
            cover less than a pixel.
        notes: Some of gray, cmyk, 16-bit, alpha, icc, icc-ignored, animation, turned, warnings,
            damaged; see `packer.types.Encoded.notes`.
        deferred: Conversion to sRGB that is still to be made; None if the pixels are in sRGB.
    """

    pixels: Array
    width: int
    height: int
    box: Box
    notes: tuple[str, ...]
    deferred: Conversion | None = None

    @staticmethod
    def of(pixels: Array) -> Decoded:
        """A picture that was never in a file: H×W×3 uint8 RGB, upright, in sRGB."""
        height, width = pixels.shape[:2]
        return Decoded(pixels, width, height, (0.0, 0.0, width, height), ())

    def in_srgb(self) -> Decoded:
        """The same picture, converted to sRGB."""
        if self.deferred is None:
            return self
        image = colour.apply(pil.from_pixels(self.pixels), self.deferred)
        return replace(self, pixels=pil.to_pixels(image), deferred=None)


@dataclass(frozen=True, slots=True)
class _Raw:
    """Pixels in the order of the file: RGB, not turned yet."""

    pixels: Array
    notes: tuple[str, ...] = ()
    divisor: int = 1
    deferred: Conversion | None = None


def decode(data: bytes, plan: PicturePlan | None = None) -> Decoded:
    """Decode the first frame of a picture to upright RGB in sRGB, on the options' background.

    Args:
        data: The file's bytes.
        plan: How to decode them: at which scale, on which background, and to which conversion of a
            JPEG's colours, which is left to `resize`, where there are fewer pixels. Without a plan
            the picture is decoded at full size, with default options, and is converted here.

    Raises:
        ImageError: empty, unsupported, undecodable, truncated, damaged, too-large.
        MemoryError: Not enough memory for the decoded picture.
    """
    if plan is None:
        return decode(data, plan_picture(probe(data), _DEFAULTS)).in_srgb()
    head = plan.head
    try:
        raw = _DECODERS[head.kind](data, plan)
    except ImageError as error:
        if error.reason in ("undecodable", "damaged") and not head.complete:
            raise ImageError("truncated", f"{error.detail}; the file was cut") from None
        raise
    height, width = raw.pixels.shape[:2]
    box: Box = (0.0, 0.0, width, height)
    full = (width, height)
    if raw.divisor > 1:
        box = (0.0, 0.0, head.width / raw.divisor, head.height / raw.divisor)
        full = (head.width, head.height)
    orientation = head.orientation
    if orientation in TRANSPOSED:
        full = full[::-1]
    notes = raw.notes
    notes += ("animation",) if head.animated else ()
    notes += ("turned",) if head.orientation != 1 else ()
    return Decoded(
        pixels=turn(raw.pixels, orientation),
        width=full[0],
        height=full[1],
        box=turn_box(box, width, height, orientation),
        notes=notes,
        deferred=raw.deferred,
    )


def _decode_jpeg(data: bytes, plan: PicturePlan) -> _Raw:
    head, conversion = plan.head, plan.conversion
    notes: tuple[str, ...] = (head.mode,) if head.mode in ("gray", "cmyk") else ()
    notes += (conversion.note,) if conversion.note else ()
    keep = plan.options.keep_damaged
    if conversion.mode == "CMYK" and conversion.transform is not None:
        plates, note = jpeg.cmyk_image(data, head, keep_damaged=keep)
        image = colour.apply(plates, conversion)
        return _Raw(pil.to_pixels(image), (*notes, note) if note else notes)
    divisor, layout = plan.divisor, "RGBX" if plan.four_bytes else "RGB"
    pixels, note = jpeg.decode(data, head, divisor, layout, keep_damaged=keep)
    if note:  # it was decoded at full scale
        notes, divisor = (*notes, note), 1
    deferred = None if conversion.transform is None else conversion
    return _Raw(pixels, notes, divisor, deferred)


def _decode_webp(data: bytes, plan: PicturePlan) -> _Raw:
    from PIL import Image

    head = plan.head
    if head.animated:  # OpenCV before 4.11 reads no animation
        return _decode_by_pillow(data, plan)
    found = opencv.decode_unchanged(data)
    if found.ndim == 3 and found.shape[2] == 3 and not head.icc:
        return _Raw(found)
    image, notes = colour.flatten(Image.fromarray(found), head, plan.options.background)
    return _Raw(pil.to_pixels(image), notes)


def _decode_avif(data: bytes, plan: PicturePlan) -> _Raw:
    from PIL import Image

    opencv.require_avif()
    head = plan.head
    found = opencv.decode_unchanged(data)
    notes: tuple[str, ...] = ()
    if found.dtype == np.uint16:
        found, notes = (found >> max(0, head.bits - 8)).clip(0, 255).astype(np.uint8), ("16-bit",)
    head = replace(head, bits=8)
    image, more = colour.flatten(Image.fromarray(found), head, plan.options.background)
    return _Raw(pil.to_pixels(image), notes + more)


def _decode_png(data: bytes, plan: PicturePlan) -> _Raw:
    # Broken text chunks, or text that inflates without end, must not make the picture unreadable.
    data = png.only(data, _PNG_PIXELS)
    with pil.opened(data, "png") as image:
        if _may_lack_rows(image):
            png.require_all_pixels(data)
        return _flattened(image, plan)


def _may_lack_rows(image: Image) -> bool:
    """Whether rows at a PNG's end can be missing. Pillow leaves such rows zero without an error; in
    an interlaced picture every second row, as the last pass holds those.
    """
    width, height = image.size
    last = np.asarray(image.crop((0, max(0, height - 2), width, height)))
    return not all(row.any() for row in last)


def _decode_tiff(data: bytes, plan: PicturePlan) -> _Raw:
    file = tiff.prepare(data)
    for part in tiff.jpegs(data):  # Pillow does not pass on libtiff's warnings about them
        jpeg.require_whole(part)
    known = f"TIFF of {file.colours}"
    with pil.opened(file.data, "tiff", known=known, by_libtiff=file.by_libtiff) as image:
        if image.mode not in pil.CONVERTIBLE:
            raise ImageError("unsupported", f"Pillow does not convert {known} to RGB")
        if file.inverted:
            return _flattened(colour.inverted(image, plan.head), plan)
        return _flattened(image, plan)


def _decode_bmp(data: bytes, plan: PicturePlan) -> _Raw:
    # Pillow misplaces runs if a file skips pixels, and accepts a truncated file as whole. OpenCV
    # decodes wrong colours for all but a few colour masks, so it decodes run-length files only.
    if plan.head.coding == "rle":
        return _Raw(opencv.decode_rgb(data))
    return _decode_by_pillow(data, plan)


def _decode_by_pillow(data: bytes, plan: PicturePlan) -> _Raw:
    with pil.opened(data, plan.head.kind) as image:
        return _flattened(image, plan)


def _flattened(image: Image, plan: PicturePlan) -> _Raw:
    """Convert a picture decoded by Pillow to RGB in sRGB."""
    require_pixel_count(*image.size)
    return _Raw(*colour.flattened(image, plan.head, plan.options.background))


_DECODERS: Final[dict[str, Callable[[bytes, PicturePlan], _Raw]]] = {
    "jpeg": _decode_jpeg,
    "png": _decode_png,
    "webp": _decode_webp,
    "bmp": _decode_bmp,
    "gif": _decode_by_pillow,
    "tiff": _decode_tiff,
    "avif": _decode_avif,
    # OpenCV does not scale values of another maximum than 255.
    "ppm": _decode_by_pillow,
}
