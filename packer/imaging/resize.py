"""Resizing by Pillow's filters."""

from __future__ import annotations

from packer.imaging.colour import apply
from packer.imaging.decode import Decoded
from packer.imaging.geometry import Geometry, Size
from packer.imaging.orient import Box
from packer.imaging.pil import from_pixels, to_pixels
from packer.imaging.plan import PicturePlan
from packer.settings.options import ImageOptions
from packer.types import Pixels

# Filters with a step at their edge: Pillow stores boxes in 32-bit floats, and rounding a box moves
# a whole pixel in or out, so the picture is cut after scaling.
_STEPPED = ("nearest", "box")
# … unless the whole scaled picture, if it is long and thin, would be too large to make.
_WHOLE_LIMIT = 1 << 24


def resize(picture: Decoded, plan: PicturePlan) -> Pixels:
    """Resize an upright picture by its plan; return its pixels as they are if nothing changes.

    Equals Pillow's `Image.resize` with the filter of the same name. If the picture is cut
    afterwards, only the part that stays is computed. A deferred conversion to sRGB is made before
    or after resizing, where there are fewer pixels.

    Args:
        picture: A picture of the upright size that the plan is for.
        plan: Its geometry, and the options with filter and background.
    """
    sizes = plan.geometry
    height, width = picture.pixels.shape[:2]
    if sizes.scaled[0] * sizes.scaled[1] >= width * height:
        picture = picture.in_srgb()
    pixels = picture.pixels
    whole = (0.0, 0.0, width, height)
    if sizes == Geometry((width, height), (width, height)) and picture.box == whole:
        return pixels
    return _resample(picture, sizes, plan.options)


def _resample(picture: Decoded, sizes: Geometry, options: ImageOptions) -> Pixels:
    from PIL import Image

    image = from_pixels(picture.pixels)
    resample = Image.Resampling[options.filter.upper()]
    part = (min(sizes.size[0], sizes.scaled[0]), min(sizes.size[1], sizes.scaled[1]))
    if options.filter in _STEPPED and sizes.scaled[0] * sizes.scaled[1] <= _WHOLE_LIMIT:
        scaled = image.resize(sizes.scaled, resample, box=picture.box)
        scaled = scaled.crop((*sizes.cut, sizes.cut[0] + part[0], sizes.cut[1] + part[1]))
    else:
        scaled = image.resize(part, resample, box=_source_box(picture, sizes, part))
    if picture.deferred is not None:
        scaled = apply(scaled, picture.deferred)
    if part == sizes.size:
        return to_pixels(scaled)
    fourth = (255,) if scaled.mode == "RGBX" else ()
    canvas = Image.new(scaled.mode, sizes.size, (*options.background, *fourth))
    canvas.paste(scaled, sizes.paste)
    return to_pixels(canvas)


def _source_box(picture: Decoded, sizes: Geometry, part: Size) -> Box:
    """The box of the source pixels that becomes `part` of the scaled picture."""
    left, top, right, bottom = picture.box
    step_x, step_y = (right - left) / sizes.scaled[0], (bottom - top) / sizes.scaled[1]
    left, top = left + sizes.cut[0] * step_x, top + sizes.cut[1] * step_y
    # Rounding must not carry the box beyond the picture, which Pillow refuses.
    height, width = picture.pixels.shape[:2]
    return (
        max(left, 0.0),
        max(top, 0.0),
        min(left + part[0] * step_x, width),
        min(top + part[1] * step_y, height),
    )
