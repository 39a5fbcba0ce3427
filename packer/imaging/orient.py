"""Turn a picture upright by its EXIF orientation (CIPA DC-008, tag 0x0112)."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

from packer.types import Pixels

#: (left, top, right, bottom) in pixels; may be fractions.
Box: TypeAlias = tuple[float, float, float, float]

# Orientation → (swap rows and columns, then mirror left-right, then mirror top-bottom).
_TURNS: Final[dict[int, tuple[bool, bool, bool]]] = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright; the result is C-contiguous, and no copy if nothing turns."""
    transpose, mirror_x, mirror_y = _TURNS[orientation]
    if transpose:
        pixels = pixels.swapaxes(0, 1)
    return np.ascontiguousarray(pixels[:: -1 if mirror_y else 1, :: -1 if mirror_x else 1])


def turn_box(box: Box, width: int, height: int, orientation: int) -> Box:
    """Move a box of a picture of width × height with the picture as it is turned upright."""
    transpose, mirror_x, mirror_y = _TURNS[orientation]
    left, top, right, bottom = box
    if transpose:
        left, top, right, bottom = top, left, bottom, right
        width, height = height, width
    if mirror_x:
        left, right = width - right, width - left
    if mirror_y:
        top, bottom = height - bottom, height - top
    return left, top, right, bottom
