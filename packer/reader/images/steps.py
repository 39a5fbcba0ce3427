"""Steps: what the built-in transforms do to one picture, with their parameters drawn.

The size of a step's result is known before there are pixels, and the result can be written into
given memory, such as a picture's place in a mini-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from packer.imaging.native.fastresize import mirror, resize
from packer.types import Array, Pixels

#: (height, width) in pixels.
Shape: TypeAlias = tuple[int, int]


class Step(Protocol):
    """One change of a picture."""

    def shape(self, shape: Shape) -> Shape:
        """(height, width) of the picture afterwards."""

    def apply(self, pixels: Pixels) -> Array:
        """The picture afterwards. `pixels` stays as it is; the result may share its memory."""

    def write(self, pixels: Pixels, out: Array) -> None:
        """Write the result of `apply` into `out`, which is C-contiguous and shares no memory with
        `pixels`.
        """


@dataclass(frozen=True, slots=True)
class Crop:
    """Cut out a rectangle; its parts outside of the picture are black."""

    top: int
    left: int
    height: int
    width: int

    def shape(self, shape: Shape) -> Shape:
        return self.height, self.width

    def within(self, shape: Shape) -> bool:
        """Whether the rectangle lies inside of a picture of this size."""
        inside = self.top + self.height <= shape[0] and self.left + self.width <= shape[1]
        return inside and self.top >= 0 and self.left >= 0

    def apply(self, pixels: Pixels) -> Array:
        if self.within((pixels.shape[0], pixels.shape[1])):
            return pixels[self.top : self.top + self.height, self.left : self.left + self.width]
        out = np.empty((self.height, self.width, pixels.shape[2]), pixels.dtype)
        self.write(pixels, out)
        return out

    def write(self, pixels: Pixels, out: Array) -> None:
        height, width = pixels.shape[:2]
        top, left = max(self.top, 0), max(self.left, 0)
        bottom = max(top, min(self.top + self.height, height))
        right = max(left, min(self.left + self.width, width))
        if (bottom - top, right - left) != (self.height, self.width):
            out[...] = 0
        inside = out[top - self.top : bottom - self.top, left - self.left : right - self.left]
        inside[...] = pixels[top:bottom, left:right]


@dataclass(frozen=True, slots=True)
class Scale:
    """Resize, antialiased; mirror left and right afterwards, if asked for."""

    height: int
    width: int
    mirrored: bool = False

    def shape(self, shape: Shape) -> Shape:
        return self.height, self.width

    def apply(self, pixels: Pixels) -> Array:
        return resize(pixels, self.width, self.height, mirrored=self.mirrored)

    def write(self, pixels: Pixels, out: Array) -> None:
        resize(pixels, self.width, self.height, out, self.mirrored)


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror left and right."""

    def shape(self, shape: Shape) -> Shape:
        return shape

    def apply(self, pixels: Pixels) -> Array:
        return pixels[:, ::-1]

    def write(self, pixels: Pixels, out: Array) -> None:
        out[...] = pixels[:, ::-1]


@dataclass(frozen=True, slots=True)
class Standardise:
    """Make float32 of uint8 in 0..255: (value / 255 - mean) / std for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def shape(self, shape: Shape) -> Shape:
        return shape

    def apply(self, pixels: Pixels) -> Array:
        out = np.empty(pixels.shape, np.float32)
        self.write(pixels, out)
        return out

    def write(self, pixels: Pixels, out: Array) -> None:
        # Row by row: with inner loops over three channels, numpy takes five times as long.
        height, width = pixels.shape[:2]
        std = np.array(self.std, np.float64)
        factor = np.tile((1 / (255 * std)).astype(np.float32), width)
        offset = np.tile((np.array(self.mean) / std).astype(np.float32), width)
        rows = out.reshape(height, -1)
        np.multiply(pixels.reshape(height, -1), factor, out=rows, dtype=np.float32)
        rows -= offset


def apply_steps(pixels: Pixels, steps: Sequence[Step]) -> Array:
    """The picture after all steps; may share memory with `pixels`."""
    for step in steps:
        pixels = step.apply(pixels)
    return pixels


def write_steps(pixels: Pixels, steps: Sequence[Step], out: Array) -> None:
    """The picture after all steps, written into `out`; the same values as `apply_steps` gives.

    Args:
        pixels: H×W×3 uint8; shares no memory with `out`.
        steps: The steps.
        out: Height×width×3 of the size after all steps; uint8, or float32 behind Standardise.

    Raises:
        ValueError: `out` has another size.
    """
    last = len(steps) - 1
    while last >= 0 and isinstance(steps[last], Flip):
        last -= 1
    before = apply_steps(pixels, steps[: max(last, 0)])
    shape = (before.shape[0], before.shape[1])
    if last >= 0:
        shape = steps[last].shape(shape)
    if out.shape != (*shape, 3):
        raise ValueError(f"room for {out.shape}, not for a picture of {(*shape, 3)}")
    if not out.flags.c_contiguous:
        out[...] = apply_steps(pixels, steps)
        return
    if last >= 0:
        steps[last].write(before, out)
    else:
        out[...] = before
    if (len(steps) - 1 - last) % 2:
        mirror(out)
