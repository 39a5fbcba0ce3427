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
    """What of a picture goes to its place in a mini-batch, resized to that place's size.

    Attributes:
        width: Of the whole picture.
        height: Of the whole picture.
        region: What to decode of it.
        mirrored: Whether to swap left and right afterwards.
    """

    width: int
    height: int
    region: Region
    mirrored: bool = False


#: Instead of a picture that is left out.
_NOTHING = (1, 1, 0, 0, 1, 1, 1, False, False)


def make_pieces(
    payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
) -> Sequence[int]:
    """Decode a piece of each JPEG and resize it into its place.

    Args:
        payloads: The JPEGs; None: one that is not there.
        pieces: What to make of each; None: nothing.
        out: N×height×width×3 uint8, C-contiguous.

    Returns:
        Numbers of those that were not made, whose places hold anything: all if there is no
        extension, else those that are not there, or that a decoder had any complaint of, or that
        are to be mirrored without being resized. Take them one by one, which gives the reason.

    Raises:
        ValueError: `out` is no such array, or a piece is invalid.
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
