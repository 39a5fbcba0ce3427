"""What a stream yields: a tuple with names.

With `pin_memory=True`, DataLoader makes a list of a plain tuple in many versions of torch; a named
one it keeps in all. So training code gets the same type with and without it.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=64)  # there are as many as there are choices of fields in a program: a few
def mini_batch_type(fields: tuple[str, ...]) -> Any:
    """The class of mini-batches with these fields, one class for each choice of them.

    A field whose name cannot be an attribute's is reached by its place alone.
    """
    make: Any = collections.namedtuple  # mypy knows it with literal names only
    base: Any = make("MiniBatch", fields, rename=True)

    class MiniBatch(base):  # type: ignore[misc]
        """One mini-batch, a field each, in the order that was asked for."""

        __slots__ = ()

        def __reduce__(self) -> tuple[object, ...]:
            # Made on demand, so pickle cannot find it by its name.
            return make_mini_batch, (fields, tuple(self))

    return MiniBatch


def make_mini_batch(fields: tuple[str, ...], values: Iterable[Any]) -> Any:
    """A mini-batch of these values, one a field."""
    return mini_batch_type(fields)(*values)
