"""The size that a picture will have, and the resizing, by Pillow's filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from packer.errors import ImageError
from packer.imaging.colour import apply
from packer.imaging.decode import Decoded
from packer.imaging.heads.probe import PIXEL_LIMIT
from packer.imaging.orient import Box
from packer.imaging.pil import from_pixels, to_pixels
from packer.settings.options import ImageOptions
from packer.settings.parsing import MAX_SIDE
from packer.types import Pixels

Size: TypeAlias = tuple[int, int]

# Filters with a jump at their edge: Pillow holds boxes in 32-bit floats, and a box that is rounded
# moves a whole pixel in or out, so the cut is made after scaling.
_STEPPED = ("nearest", "box")
# … unless the scaled picture is so large, being long and thin, that it should not be made whole.
_WHOLE_LIMIT = 1 << 24


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a picture of one size becomes the stored one. Sizes are (width, height) in pixels.

    Attributes:
        scaled: Size to which the whole picture is scaled.
        size: Size of the stored picture.
        cut: Where the stored picture begins in the scaled one (mode crop), (left, top).
        paste: Where the scaled picture lies in the stored one (mode pad), (left, top).
    """

    scaled: Size
    size: Size
    cut: Size = (0, 0)
    paste: Size = (0, 0)


def geometry(width: int, height: int, options: ImageOptions) -> Geometry:
    """How an upright picture of width × height becomes the stored one.

    Modes short and long round as torchvision's `Resize` does (the other side is cut to whole
    pixels), crop cuts as its `CenterCrop` does. No side falls below one pixel.

    Raises:
        ImageError: bad-size: a thin picture would become longer than 65,535 pixels, or larger
            than the pixel limit.
    """
    if options.size is None:
        return Geometry((width, height), (width, height))
    found = _fit(width, height, options.size, options)
    long = max(found.size)
    if found.size != (width, height) and (
        long > MAX_SIDE or found.size[0] * found.size[1] > PIXEL_LIMIT
    ):
        raise ImageError(
            "bad-size",
            f"{width} x {height} would become {found.size[0]} x {found.size[1]} pixels",
        )
    return found


def resized_size(width: int, height: int, options: ImageOptions) -> Size:
    """(width, height) of the stored picture; see `geometry`."""
    return geometry(width, height, options).size


def _fit(width: int, height: int, size: Size, options: ImageOptions) -> Geometry:
    wide, high = size
    if options.mode == "exact":
        scaled = size if options.upscale else (min(width, wide), min(height, high))
        return Geometry(scaled, scaled)
    # Which side of the target decides the scale: the shorter way to cover it (short, crop), the
    # longer way to stay inside it (long, pad). `wider`: the picture is flatter than the target.
    wider = width * high > height * wide
    by_height = wider if options.mode in ("short", "crop") else not wider
    if by_height:
        scaled = (max(1, high * width // height), high)
    else:
        scaled = (wide, max(1, wide * height // width))
    grows = scaled[1] > height if by_height else scaled[0] > width
    if grows and not options.upscale:
        scaled = (width, height)
    if options.mode == "crop":
        kept = (min(wide, scaled[0]), min(high, scaled[1]))
        # round() goes to the even number at halves, as in torchvision.
        cut = (round((scaled[0] - kept[0]) / 2), round((scaled[1] - kept[1]) / 2))
        return Geometry(scaled, kept, cut=cut)
    if options.mode == "pad":
        return Geometry(scaled, size, paste=((wide - scaled[0]) // 2, (high - scaled[1]) // 2))
    return Geometry(scaled, scaled)


def resize(picture: Pixels | Decoded, options: ImageOptions) -> Pixels:
    """Resize an upright picture as the options ask; returned as it is where nothing changes.

    Equals Pillow's `Image.resize` with the filter of the same name. Of a picture that is cut
    afterwards only what stays is computed. A conversion to sRGB that was deferred is made before
    or after, where there are fewer pixels.

    Raises:
        ImageError: bad-size, see `geometry`.
    """
    if not isinstance(picture, Decoded):
        height, width = picture.shape[:2]
        picture = Decoded(picture, width, height, (0.0, 0.0, width, height), ())
    plan = geometry(picture.width, picture.height, options)
    height, width = picture.pixels.shape[:2]
    if plan.scaled[0] * plan.scaled[1] >= width * height:
        picture = picture.in_srgb()
    pixels = picture.pixels
    whole = (0.0, 0.0, width, height)
    if plan == Geometry((width, height), (width, height)) and picture.box == whole:
        return pixels
    return _resample(picture, plan, options)


def _resample(picture: Decoded, plan: Geometry, options: ImageOptions) -> Pixels:
    from PIL import Image

    image = from_pixels(picture.pixels)
    resample = Image.Resampling[options.filter.upper()]
    part = (min(plan.size[0], plan.scaled[0]), min(plan.size[1], plan.scaled[1]))
    if options.filter in _STEPPED and plan.scaled[0] * plan.scaled[1] <= _WHOLE_LIMIT:
        scaled = image.resize(plan.scaled, resample, box=picture.box)
        scaled = scaled.crop((*plan.cut, plan.cut[0] + part[0], plan.cut[1] + part[1]))
    else:
        scaled = image.resize(part, resample, box=_source_box(picture, plan, part))
    if picture.deferred is not None:
        scaled = apply(scaled, picture.deferred)
    if part == plan.size:
        return to_pixels(scaled)
    fourth = (255,) if scaled.mode == "RGBX" else ()
    canvas = Image.new(scaled.mode, plan.size, (*options.background, *fourth))
    canvas.paste(scaled, plan.paste)
    return to_pixels(canvas)


def _source_box(picture: Decoded, plan: Geometry, part: Size) -> Box:
    """The part of the pixels that becomes `part` of the scaled picture."""
    left, top, right, bottom = picture.box
    step_x, step_y = (right - left) / plan.scaled[0], (bottom - top) / plan.scaled[1]
    left, top = left + plan.cut[0] * step_x, top + plan.cut[1] * step_y
    # Rounding must not carry the box beyond the picture, which Pillow refuses.
    height, width = picture.pixels.shape[:2]
    return (
        max(left, 0.0),
        max(top, 0.0),
        min(left + part[0] * step_x, width),
        min(top + part[1] * step_y, height),
    )
