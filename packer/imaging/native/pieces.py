"""A piece of each of several pictures, resized to one size, in one call of a C extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from packer.extension import Extension
from packer.imaging.native.region import Region
from packer.types import Array

NATIVE = Extension("packer.imaging.native._pieces")


class Piece(NamedTuple):
    """The part of a picture that is resized into its place in a mini-batch.

    Attributes:
        width: Width of the whole picture.
        height: Height of the whole picture.
        region: Rectangle to decode.
        mirrored: Whether to swap left and right afterwards.
    """

    width: int
    height: int
    region: Region
    mirrored: bool = False


#: Row for a picture that is left out.
_NOTHING = (1, 1, 0, 0, 1, 1, 1, False, False)


def make_pieces(
    payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
) -> Sequence[int]:
    """Decode a piece of each JPEG and resize it into its place.

    Args:
        payloads: The JPEGs; None: a missing one.
        pieces: The piece of each; None: make nothing.
        out: N×height×width×3 uint8, C-contiguous.

    Returns:
        Indices of pieces that were not made, whose places have undefined content: all if there is
        no extension, else indices whose payload is None, for which libjpeg reported an error or
        warning, or that are mirrored without being resized. Decode them one by one, which gives
        the reason.

    Raises:
        ValueError: `out` has another form, or a piece is invalid.
    """
    native = NATIVE.module
    if native is None:
        return range(len(payloads))
    pairs = zip(payloads, pieces, strict=True)
    there = [None if piece is None else payload for payload, piece in pairs]
    rows = [_NOTHING if piece is None else _row(piece) for piece in pieces]
    left: list[int] = native.make(there, np.array(rows, np.int32).reshape(-1, len(_NOTHING)), out)
    return left


def _row(piece: Piece) -> tuple[int, ...]:
    width, height, region, mirrored = piece
    top, left, high, wide, divisor, fast = region
    return width, height, left, top, wide, high, divisor, fast, mirrored
