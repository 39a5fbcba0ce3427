"""Resizing while training: OpenCV where any distribution of it is present, else Pillow.

The converter resizes once and wants Pillow's exact filters; a reader resizes in every epoch and
wants speed. Shrinking is antialiased in both libraries: by averaging (OpenCV's INTER_AREA), or by
Pillow's bilinear filter, whose support grows with the scale.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from packer.errors import MissingDependency
from packer.imaging.opencv import load_cv2
from packer.types import Pixels


def resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Resize to width × height pixels.

    Args:
        pixels: H×W×3 uint8.
        width: At least 1.
        height: At least 1.

    Returns:
        height×width×3 uint8, in memory of its own unless the size is right already.

    Raises:
        MissingDependency: Neither OpenCV nor Pillow is installed.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    return _resizer()(pixels, width, height)


@functools.cache
def _resizer() -> Callable[[Pixels, int, int], Pixels]:
    try:
        cv2 = load_cv2()
    except MissingDependency:
        return _pillow_resizer()
    return functools.partial(_with_opencv, cv2)


def _with_opencv(cv2: Any, pixels: Pixels, width: int, height: int) -> Pixels:
    # Averaging only shrinks and interpolation aliases when it does, so where one side grows and
    # the other shrinks they take turns.
    small = min(width, pixels.shape[1]), min(height, pixels.shape[0])
    if small != (pixels.shape[1], pixels.shape[0]):
        pixels = cv2.resize(pixels, small, interpolation=cv2.INTER_AREA)
    if small != (width, height):
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR)
    return pixels


def _pillow_resizer() -> Callable[[Pixels, int, int], Pixels]:
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency(
            "resizing needs OpenCV or Pillow", "pip install opencv-python-headless"
        ) from None
    import numpy as np

    def with_pillow(pixels: Pixels, width: int, height: int) -> Pixels:
        image = Image.fromarray(np.ascontiguousarray(pixels))
        return np.array(image.resize((width, height), Image.Resampling.BILINEAR))

    return with_pillow
