"""One picture's way from its file to the stored picture, decided from its header alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from packer.errors import ImageError
from packer.imaging import colour, jpeg
from packer.imaging.colour import Conversion
from packer.imaging.geometry import Geometry, Size, geometry
from packer.imaging.heads.head import TRANSPOSED, Head
from packer.settings.options import ImageOptions

_PIXEL_MODES: Final = {"gray": "L", "cmyk": "CMYK"}


class Encoder(Protocol):
    """The facts about a codec that a plan depends on; see `packer.codecs.Codec`."""

    FOUR_BYTES: bool
    MAX_SIDE: int

    def accepts(self, head: Head, options: ImageOptions) -> bool:
        """Whether a file with this head can be stored without encoding its pixels again."""


@dataclass(frozen=True, slots=True)
class PicturePlan:
    """How one picture is decoded, converted, resized and stored.

    Attributes:
        head: The picture's header.
        options: How pictures are made.
        geometry: Sizes of the scaled and of the stored picture.
        conversion: Conversion of a JPEG's pixels to sRGB. The pixel mode of other kinds is known
            only after decoding, which looks up their conversion then.
        divisor: Divisor of a JPEG's sides while it is decoded: 1, 2, 4 or 8; 1 for other kinds.
        keeps: Store the file's coded pixels unchanged if they decode without an error.
        four_bytes: The encoder takes pixels with a fourth, meaningless byte, as Pillow stores
            them; a JPEG is then decoded to such pixels, which saves a copy (8 % of the time for
            small photos).
        max_side: Longest side that the encoder can store, in pixels; None: any.
    """

    head: Head
    options: ImageOptions
    geometry: Geometry
    conversion: Conversion
    divisor: int = 1
    keeps: bool = False
    four_bytes: bool = False
    max_side: int | None = None

    def with_size(self, size: Size) -> PicturePlan:
        """The plan for a picture that turned out to have another upright size than its header
        states.

        Raises:
            ImageError: bad-size.
        """
        if size == self.head.upright_size:
            return self
        return replace(self, geometry=_geometry(size, self.options, self.max_side))


def plan_picture(head: Head, options: ImageOptions, encoder: Encoder | None = None) -> PicturePlan:
    """Plan the conversion of one picture.

    Args:
        head: The picture's header.
        options: How pictures are made.
        encoder: The codec that stores the picture; without one, no codec limits the size, and
            nothing is kept as it is.

    Raises:
        ImageError: bad-size.
    """
    max_side = None if encoder is None else encoder.MAX_SIDE
    sizes = _geometry(head.upright_size, options, max_side)
    conversion = colour.conversion(head.icc, _PIXEL_MODES.get(head.mode, "RGB"))
    keeps = (
        encoder is not None
        and conversion.transform is None
        and not options.reencode
        and head.orientation == 1
        and sizes.size == sizes.scaled == (head.width, head.height)
        and encoder.accepts(head, options)
    )
    return PicturePlan(
        head=head,
        options=options,
        geometry=sizes,
        conversion=conversion,
        divisor=_divisor(head, sizes, options),
        keeps=keeps,
        four_bytes=encoder is not None and encoder.FOUR_BYTES,
        max_side=max_side,
    )


def _geometry(size: Size, options: ImageOptions, max_side: int | None) -> Geometry:
    found = geometry(*size, options)
    if max_side is not None and max(found.size) > max_side:
        width, height = found.size
        raise ImageError(
            "bad-size",
            f"{width} x {height} pixels; codec {options.codec} ends at {max_side} a side",
        )
    return found


def _divisor(head: Head, sizes: Geometry, options: ImageOptions) -> int:
    # A filter that picks single pixels must pick those of the full picture.
    exact = options.exact_decode or options.filter == "nearest" or options.size is None
    if exact or head.kind != "jpeg":
        return 1
    target = sizes.scaled[::-1] if head.orientation in TRANSPOSED else sizes.scaled
    return jpeg.reduction(head.width, head.height, target)
