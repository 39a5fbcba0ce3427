"""The same rectangle of many pictures' bare pixels, in one call of a C extension."""

from __future__ import annotations

from packer.extension import Extension
from packer.imaging.native.region import Region
from packer.types import Array

NATIVE = Extension("packer.imaging.native._cutting")


def cut_all(
    pictures: list[memoryview | None], size: tuple[int, int], region: Region, out: Array
) -> bool:
    """Copy a rectangle of some pictures.

    Args:
        pictures: The pixels of each picture, as bytes; None: a missing picture.
        size: (width, height) that each must have.
        region: The rectangle, at full size; it lies inside the pictures.
        out: Output array: N×height×width×3 uint8, C-contiguous.

    Returns:
        Whether all were copied. If not (there is no extension; a picture is missing or has another
        size), none was: copy them one by one.

    Raises:
        ValueError: The rectangle is invalid, or `out` has another size.
    """
    native = NATIVE.module
    if native is None:
        return False
    done: bool = native.cut(pictures, size, (region.left, region.top), out)
    return done
