"""Read class numbers from `.cls` files, as WebDataset writes them: K.jpg and K.cls are one
sample.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from packer.sources._sidecars import CLS, stem
from packer.types import NO_LABEL, Array, ClassNumbers, Listing

#: Longest `.cls` file in bytes that can hold a number.
LONGEST = 64


def read_numbers(
    listing: Listing, files: Collection[bytes], read: Callable[[Sequence[bytes]], Iterable[bytes]]
) -> ClassNumbers | None:
    """Read the `.cls` files of a source; None if there are none.

    Args:
        listing: Listing of the scan.
        files: Paths of the `.cls` files in the source.
        read: Reads at least the first `LONGEST` + 1 bytes of each; b"" for unreadable ones.
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
    """Return the number in a file; NO_LABEL if it holds no number of at least 0."""
    text = content.strip()
    # Eighteen digits fit into int64.
    return int(text) if text.isdigit() and len(text) <= 18 else NO_LABEL
