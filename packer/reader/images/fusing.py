"""The part of a picture that has to be decoded, given the steps that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from packer.imaging.native.region import Region
from packer.reader.images.steps import Crop, Flip, Scale, Shape, Step

#: A picture is reduced while it is decoded only if the result is at least this many times as large
#: as the target: with less, the coarse filter of the reduced inverse transform becomes visible.
_MARGIN = 2


class Fused(NamedTuple):
    """Decoding and transforming one picture.

    Attributes:
        region: The part of the picture to decode.
        steps: The steps that follow.
    """

    region: Region
    steps: list[Step]


def fuse(
    steps: Sequence[Step], shape: Shape, divisors: Sequence[int] = (1,), fast: bool = False
) -> Fused:
    """Leave crops to the decoder, as far as it can do them.

    At full size the pixels are those of decoding everything and then doing all steps, bit for bit.

    Args:
        steps: The steps for the whole picture.
        shape: (height, width) of the picture.
        divisors: Numbers by which the decoder can divide the picture's size, ascending from 1.
        fast: Whether to reduce the picture's size, and to decode with small deviations.
    """
    crop, mirrored, rest = _first_crop(steps, shape)
    after: list[Step] = [Flip()] if mirrored else []
    for step in rest:
        before = after[-1] if after else None
        if isinstance(step, Flip) and isinstance(before, Scale):
            after[-1] = Scale(before.height, before.width, not before.mirrored)
        else:
            after.append(step)
    if fast and after and isinstance(after[0], Scale):
        divisor = _divisor(crop, after[0], divisors)
        return Fused(_divided(crop, divisor), after)
    return Fused(Region(crop.top, crop.left, crop.height, crop.width, 1, fast), after)


def _first_crop(steps: Sequence[Step], shape: Shape) -> tuple[Crop, bool, Sequence[Step]]:
    """All crops at the front as one, whether to mirror its result, and the steps that follow."""
    top, left, size, mirrored = 0, 0, shape, False
    place = 0
    for step in steps:
        if isinstance(step, Crop) and step.within(size):
            top += step.top
            left += size[1] - step.left - step.width if mirrored else step.left
            size = step.height, step.width
        elif isinstance(step, Flip):
            mirrored = not mirrored
        elif not isinstance(step, Scale) or step.mirrored or (step.height, step.width) != size:
            break
        place += 1
    return Crop(top, left, *size), mirrored, steps[place:]


def _divisor(crop: Crop, target: Scale, divisors: Sequence[int]) -> int:
    fitting = [
        divisor
        for divisor in divisors
        if crop.height >= _MARGIN * target.height * divisor
        and crop.width >= _MARGIN * target.width * divisor
    ]
    return max(fitting, default=1)


def _divided(crop: Crop, divisor: int) -> Region:
    """The crop in a picture of 1/divisor of the size. Its sides move by half a pixel at most, which
    is a quarter of a pixel of the target.
    """
    top, left = round(crop.top / divisor), round(crop.left / divisor)
    bottom = round((crop.top + crop.height) / divisor)
    right = round((crop.left + crop.width) / divisor)
    return Region(top, left, bottom - top, right - left, divisor, fast=True)
