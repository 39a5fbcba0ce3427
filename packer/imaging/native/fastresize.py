"""Resize while training by the fastest library installed: the C extension, OpenCV or Pillow.

The converter resizes once and needs Pillow's exact filters; a reader resizes in every epoch and
needs speed. Shrinking is antialiased in all three: by a triangle whose support grows with the scale
(the extension, and Pillow's bilinear filter, from which it differs by a level at most), or by
averaging (OpenCV's INTER_AREA).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from packer.errors import MissingDependency
from packer.extension import Extension
from packer.imaging.opencv import load_cv2
from packer.installing import install_only
from packer.types import Array, Pixels

NATIVE = Extension("packer.imaging.native._fastresize")

_Resizer: TypeAlias = Callable[[Pixels, int, int, Pixels | None], Pixels]


def resize(
    pixels: Pixels, width: int, height: int, out: Pixels | None = None, mirrored: bool = False
) -> Pixels:
    """Resize to width × height pixels.

    Args:
        pixels: H×W×3 uint8.
        width: At least 1.
        height: At least 1.
        out: Output array: height×width×3 uint8, C-contiguous.
        mirrored: Swap left and right afterwards.

    Returns:
        `out`, or without it a new array height×width×3 uint8 (a view of `pixels` if the size is
        right already).

    Raises:
        MissingDependency: There is no extension, and neither OpenCV nor Pillow is installed.
    """
    if pixels.shape[:2] == (height, width):
        pixels = pixels[:, ::-1] if mirrored else pixels
        if out is None:
            return pixels
        out[...] = pixels
        return out
    native = NATIVE.module
    if native is not None:
        room = np.empty((height, width, 3), np.uint8) if out is None else out
        return _with_extension(native, pixels, room, mirrored)
    resized = _resizer()(pixels, width, height, out)
    if mirrored:
        mirror(resized)
    return resized


def mirror(pixels: Array) -> None:
    """Mirror left and right in place: H×W×3 uint8 or float32, C-contiguous."""
    try:
        cv2 = load_cv2()
    except MissingDependency:
        pixels[...] = pixels[:, ::-1].copy()
    else:
        cv2.flip(pixels, 1, dst=pixels)


def _with_extension(native: ModuleType, pixels: Pixels, out: Pixels, mirrored: bool) -> Pixels:
    if pixels.strides[1:] != (3, 1):
        pixels = np.ascontiguousarray(pixels)
    # One call shrinks by at most MOST_SHRINKING; a thumbnail of a huge picture takes several.
    most = native.MOST_SHRINKING
    while pixels.shape[0] > most * out.shape[0] or pixels.shape[1] > most * out.shape[1]:
        sides = zip(out.shape[:2], pixels.shape[:2], strict=True)
        smaller = np.empty((*(max(side, -(-had // most)) for side, had in sides), 3), np.uint8)
        native.resize(pixels, smaller, False)
        pixels = smaller
    native.resize(pixels, out, mirrored)
    return out


@functools.cache
def _resizer() -> _Resizer:
    try:
        cv2 = load_cv2()
    except MissingDependency:
        return _pillow_resizer()
    return functools.partial(_with_opencv, cv2)


def _with_opencv(cv2: Any, pixels: Pixels, width: int, height: int, out: Pixels | None) -> Pixels:
    # INTER_AREA antialiases only when shrinking, and INTER_LINEAR does not antialias: if one side
    # grows and the other shrinks, shrink first.
    small = min(width, pixels.shape[1]), min(height, pixels.shape[0])
    grows = small != (width, height)
    if small != (pixels.shape[1], pixels.shape[0]):
        where = None if grows else out
        pixels = cv2.resize(pixels, small, dst=where, interpolation=cv2.INTER_AREA)
    if grows:
        pixels = cv2.resize(pixels, (width, height), dst=out, interpolation=cv2.INTER_LINEAR)
    return pixels


def _pillow_resizer() -> _Resizer:
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency("resizing needs OpenCV or Pillow", install_only("cv2")) from None

    def with_pillow(pixels: Pixels, width: int, height: int, out: Pixels | None) -> Pixels:
        image = Image.fromarray(np.ascontiguousarray(pixels))
        resized = np.array(image.resize((width, height), Image.Resampling.BILINEAR))
        if out is None:
            return resized
        out[...] = resized
        return out

    return with_pillow
