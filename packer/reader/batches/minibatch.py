"""The mini-batches that a stream yields: named tuples.

With `pin_memory=True`, DataLoader turns a plain tuple into a list in many versions of torch, but
keeps a named tuple in all of them. So training code gets the same type with and without it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)  # one class for each choice of fields: a program has a few
def mini_batch_type(fields: tuple[str, ...]) -> Any:
    """Return the class of mini-batches with these fields.

    A field whose name is no valid attribute name can be reached by its index only.
    """
    make: Any = collections.namedtuple  # mypy accepts literal names only
    base: Any = make("MiniBatch", fields, rename=True)

    class MiniBatch(base):  # type: ignore[misc]
        """One mini-batch: its fields, in the order of `fields`."""

        __slots__ = ()

        def __reduce__(self) -> tuple[object, ...]:
            # The class is made on demand, so pickle cannot find it by its name.
            return make_mini_batch, (fields, tuple(self))

    return MiniBatch


def make_mini_batch(fields: tuple[str, ...], values: Iterable[Any]) -> Any:
    """Make a mini-batch of these values, one for each field."""
    return mini_batch_type(fields)(*values)
