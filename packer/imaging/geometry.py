"""The size of the stored picture, and where the scaled picture lies in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from packer.errors import ImageError
from packer.imaging.heads.probe import PIXEL_LIMIT
from packer.settings.options import ImageOptions
from packer.settings.parsing import MAX_SIDE

Size: TypeAlias = tuple[int, int]


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
    """Compute how an upright picture of width × height becomes the stored one.

    Modes short and long round as torchvision's `Resize` does (the other side is truncated to whole
    pixels); crop cuts as torchvision's `CenterCrop` does. No side falls below one pixel.

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


def _fit(width: int, height: int, size: Size, options: ImageOptions) -> Geometry:
    wide, high = size
    if options.mode == "exact":
        scaled = size if options.upscale else (min(width, wide), min(height, high))
        return Geometry(scaled, scaled)
    # Which side of the target decides the scale: modes short and crop cover the target, modes long
    # and pad stay inside it. `wider`: the aspect ratio is larger than the target's.
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
        # round() rounds halves to the even number, as torchvision does.
        cut = (round((scaled[0] - kept[0]) / 2), round((scaled[1] - kept[1]) / 2))
        return Geometry(scaled, kept, cut=cut)
    if options.mode == "pad":
        return Geometry(scaled, size, paste=((wide - scaled[0]) // 2, (high - scaled[1]) // 2))
    return Geometry(scaled, scaled)
