"""A picture's bytes → upright RGB pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from packer.errors import ImageError
from packer.imaging import colour, jpeg, opencv, pil, tiff
from packer.imaging.colour import RGB, Conversion
from packer.imaging.heads import png
from packer.imaging.heads.head import TRANSPOSED, Head
from packer.imaging.heads.probe import probe, require_pixel_count
from packer.imaging.orient import Box, turn, turn_box
from packer.settings.options import ImageOptions
from packer.types import Array

if TYPE_CHECKING:
    from PIL.Image import Image

_DEFAULTS: Final = ImageOptions()
# Chunks of a PNG that decide its pixels; without those of an animation, the default image is left.
_PNG_PIXELS: Final = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")


@dataclass(frozen=True, slots=True)
class Decoded:
    """An upright picture.

    Attributes:
        pixels: H×W×3 uint8 RGB, or H×W×4 of which the fourth byte means nothing, if that was
            asked for; H and W are smaller than `height` and `width` where a JPEG was decoded at
            a reduced scale.
        width: Of the whole upright picture at full scale.
        height: Of the whole upright picture at full scale.
        box: The part of `pixels` that is picture: at a reduced scale, the last column and row may
            stand for less than a pixel.
        notes: See `packer.types.Encoded.notes`; of these gray, cmyk, 16-bit, alpha, icc,
            icc-ignored, animation, turned, warnings, damaged.
        deferred: Conversion to sRGB that is still to be made, if `decode` was asked to leave it.
    """

    pixels: Array
    width: int
    height: int
    box: Box
    notes: tuple[str, ...]
    deferred: Conversion | None = None

    def in_srgb(self) -> Decoded:
        """The same picture, converted to sRGB."""
        if self.deferred is None:
            return self
        image = colour.apply(pil.from_pixels(self.pixels), self.deferred)
        return replace(self, pixels=pil.to_pixels(image), deferred=None)


@dataclass(frozen=True, slots=True)
class _Raw:
    """Pixels as they are stored: RGB, not turned yet."""

    pixels: Array
    notes: tuple[str, ...] = ()
    divisor: int = 1
    deferred: Conversion | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What `decode` was asked for."""

    target: tuple[int, int] | None
    background: RGB
    layout: str
    keep_damaged: bool


def decode(
    data: bytes,
    *,
    head: Head | None = None,
    target: tuple[int, int] | None = None,
    options: ImageOptions = _DEFAULTS,
    defer_colour: bool = False,
    four_bytes: bool = False,
) -> Decoded:
    """Decode the first frame of a picture to upright RGB in sRGB, on a background.

    Args:
        data: The file's bytes.
        head: What `probe` said of them, if it was asked already.
        target: (width, height) to which the upright picture will be shrunk: a JPEG may then be
            decoded at 1/2, 1/4 or 1/8 while both sides are still at least twice as long.
        options: Whose `background` lies under transparent pixels, and whose `keep_damaged` lets
            JPEGs pass whose pixel data are damaged.
        defer_colour: Leave a JPEG's conversion to sRGB to `resize`, which does it where there
            are fewer pixels.
        four_bytes: Pixels may have a fourth byte, as Pillow's have inside, so that nothing is
            rearranged on the way of a JPEG through Pillow: 8 % of the whole for small photos.

    Raises:
        ImageError: empty, unsupported, undecodable, truncated, damaged, too-large.
        MemoryError: As it says.
    """
    head = probe(data) if head is None else head
    try:
        layout = "RGBX" if four_bytes else "RGB"
        wanted = _Wanted(target, options.background, layout, options.keep_damaged)
        raw = _DECODERS[head.kind](data, head, wanted)
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
    picture = Decoded(
        pixels=turn(raw.pixels, orientation),
        width=full[0],
        height=full[1],
        box=turn_box(box, width, height, orientation),
        notes=notes,
        deferred=raw.deferred,
    )
    return picture if defer_colour else picture.in_srgb()


def reduction(head: Head, target: tuple[int, int] | None) -> int:
    """By what the sides of a picture are divided while it is decoded for such a target; see
    `decode`.
    """
    if head.kind != "jpeg":
        return 1
    if target is not None and head.orientation in TRANSPOSED:
        target = target[::-1]
    return jpeg.reduction(head.width, head.height, target)


def _decode_jpeg(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    notes: tuple[str, ...] = (head.mode,) if head.mode in ("gray", "cmyk") else ()
    mode = {"gray": "L", "cmyk": "CMYK"}.get(head.mode, "RGB")
    what = colour.conversion(head.icc, mode)
    notes += (what.note,) if what.note else ()
    if what.mode == "CMYK" and what.transform is not None:
        plates, note = jpeg.cmyk_image(data, head, keep_damaged=wanted.keep_damaged)
        image, _ = colour.to_srgb(plates, head.icc)
        return _Raw(pil.to_pixels(image), (*notes, note) if note else notes)
    divisor = reduction(head, wanted.target)
    keep = wanted.keep_damaged
    pixels, note = jpeg.decode(data, head, divisor, wanted.layout, keep_damaged=keep)
    if note:  # then it was decoded at full scale
        notes, divisor = (*notes, note), 1
    return _Raw(pixels, notes, divisor, deferred=what if what.transform is not None else None)


def _decode_webp(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    from PIL import Image

    if head.animated:  # OpenCV before 4.11 reads no animation
        return _decode_by_pillow(data, head, wanted)
    found = opencv.decode_unchanged(data)
    if found.ndim == 3 and found.shape[2] == 3 and not head.icc:
        return _Raw(found)
    image, notes = colour.flatten(Image.fromarray(found), head, wanted.background)
    return _Raw(pil.to_pixels(image), notes)


def _decode_avif(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    from PIL import Image

    opencv.require_avif()
    found = opencv.decode_unchanged(data)
    notes: tuple[str, ...] = ()
    if found.dtype == np.uint16:
        found, notes = (found >> max(0, head.bits - 8)).clip(0, 255).astype(np.uint8), ("16-bit",)
    image, more = colour.flatten(Image.fromarray(found), replace(head, bits=8), wanted.background)
    return _Raw(pil.to_pixels(image), notes + more)


def _decode_png(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    # Broken text, or text that inflates without end, must not cost the picture.
    data = png.only(data, _PNG_PIXELS)
    with pil.opened(data, "png") as image:
        if _may_lack_rows(image):
            png.require_all_pixels(data)
        return _flattened(image, head, wanted)


def _may_lack_rows(image: Image) -> bool:
    """Whether rows at a PNG's end can be missing. Pillow leaves those zero without a word; in an
    interlaced picture every second row, as the last pass holds those.
    """
    width, height = image.size
    last = np.asarray(image.crop((0, max(0, height - 2), width, height)))
    return not all(row.any() for row in last)


def _decode_tiff(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    plan = tiff.prepare(data)
    for part in tiff.jpegs(data):  # libtiff's warnings of them reach nobody
        jpeg.require_whole(part)
    known = f"TIFF of {plan.colours}"
    with pil.opened(plan.data, "tiff", known=known, by_libtiff=plan.by_libtiff) as image:
        if image.mode not in pil.CONVERTIBLE:
            raise ImageError("unsupported", f"Pillow does not convert {known} to RGB")
        if plan.inverted:
            return _flattened(colour.inverted(image, head), head, wanted)
        return _flattened(image, head, wanted)


def _decode_bmp(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    # Pillow puts runs at wrong places once a file skips pixels, and takes a cut file for whole;
    # of other masks than a few OpenCV makes other colours.
    if head.coding == "rle":
        return _Raw(opencv.decode_rgb(data))
    return _decode_by_pillow(data, head, wanted)


def _decode_by_pillow(data: bytes, head: Head, wanted: _Wanted) -> _Raw:
    with pil.opened(data, head.kind) as image:
        return _flattened(image, head, wanted)


def _flattened(image: Image, head: Head, wanted: _Wanted) -> _Raw:
    """What Pillow decoded, as RGB in sRGB."""
    require_pixel_count(*image.size)
    return _Raw(*colour.flattened(image, head, wanted.background))


_DECODERS: Final[dict[str, Callable[[bytes, Head, _Wanted], _Raw]]] = {
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
