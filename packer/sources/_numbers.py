"""Class numbers from `.cls` files, as WebDataset keeps them: K.jpg and K.cls are one sample."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from packer.sources._sidecars import CLS, stem
from packer.types import NO_LABEL, Array, ClassNumbers, Listing

#: A longer file holds no number.
LONGEST = 64


def read_numbers(
    listing: Listing, files: Collection[bytes], read: Callable[[Sequence[bytes]], Iterable[bytes]]
) -> ClassNumbers | None:
    """Read the `.cls` files of a source; None where there are none.

    Args:
        listing: What the scan found.
        files: Paths of the `.cls` files inside of the source.
        read: Reads at least the first `LONGEST` + 1 bytes of each; b"" where it cannot.
    """
    inside = listing.top + b"/" if listing.top else b""
    files = sorted((path for path in files if path.startswith(inside)), key=_name)
    if not files:
        return None
    names = [_name(path).removeprefix(inside) for path in files]
    numbers = np.array([_number(content) for content in read(files)], "i8")
    places = np.array([_place(names, path) for path in listing.paths], "i8")
    used, firsts = np.unique(places, return_index=True)
    later = places >= 0
    later[firsts] = False
    alone = np.setdiff1d(np.arange(len(names)), used)

    def paths(chosen: Array) -> tuple[bytes, ...]:
        return tuple(sorted(files[place].removeprefix(inside) for place in chosen.tolist()))

    return ClassNumbers(
        values=np.where(places >= 0, numbers[places], NO_LABEL),
        invalid=paths(np.flatnonzero(numbers < 0)),
        alone=paths(alone),
        shared=tuple(listing.paths[place] for place in np.flatnonzero(later).tolist()),
    )


def _name(path: bytes) -> bytes:
    return path[: -len(CLS)]


def _place(names: Sequence[bytes], picture: bytes) -> int:
    """Place among `names` of the picture's file, or -1: of the one that has its whole name but for
    the extension, else of the one that has its name up to the first dot.
    """
    for wanted in (picture.rpartition(b".")[0], stem(picture)):
        place = bisect_left(names, wanted)
        if place < len(names) and names[place] == wanted:
            return place
    return -1


def _number(content: bytes) -> int:
    """The number that a file holds, NO_LABEL where it holds none from 0 on."""
    text = content.strip()
    # Eighteen digits fit into int64.
    return int(text) if text.isdigit() and len(text) <= 18 else NO_LABEL
