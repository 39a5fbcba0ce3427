"""Rectangles of pictures to decode."""

from __future__ import annotations

from typing import NamedTuple

from packer.extension import Extension
from packer.types import Pixels

NATIVE = Extension("packer.imaging.native._region")


class Region(NamedTuple):  # not a dataclass: one is made for each picture, in a third of the time
    """A rectangle, and how precisely to decode it.

    Attributes:
        top: First row, counted after scaling.
        left: First column, counted after scaling.
        height: Rows.
        width: Columns.
        divisor: Scale by one over it (1, 2, 4 or 8) while decoding.
        fast: Whether small deviations are accepted for speed.
    """

    top: int
    left: int
    height: int
    width: int
    divisor: int = 1
    fast: bool = False

    def is_whole(self, width: int, height: int) -> bool:
        """Whether it is all of a picture of this size, at full size."""
        return self.divisor == 1 and (self.width, self.height) == (width, height)

    def cut(self, pixels: Pixels, out: Pixels | None = None) -> Pixels:
        """The rectangle of a decoded picture: a view of it, or `out` if that is given."""
        inside = pixels[self.top : self.top + self.height, self.left : self.left + self.width]
        if out is None:
            return inside
        out[...] = inside
        return out


def decode_jpeg(
    payload: bytes | memoryview, size: tuple[int, int], region: Region, out: Pixels
) -> bool:
    """Decode a rectangle of a JPEG by the C extension: libjpeg-turbo, its rows and columns only.

    Args:
        payload: The JPEG.
        size: (width, height) that the whole picture must have.
        region: Rectangle to decode.
        out: Output array of the region's size, C-contiguous.

    Returns:
        Whether it was decoded without an error or warning. If not (there is no extension; another
        size, other colours, damage in the part that was read), the content of `out` is undefined:
        decode the whole picture instead.
    """
    native = NATIVE.module
    if native is None:
        return False
    corner = (region.left, region.top)
    done: bool = native.decode(payload, out, size, corner, region.divisor, region.fast)
    return done
