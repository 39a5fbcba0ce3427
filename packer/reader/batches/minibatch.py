"""The mini-batches that a stream yields, named tuples, and the iterator that yields them.

With `pin_memory=True`, DataLoader turns a plain tuple into a list in many versions of torch, but
keeps a named tuple in all of them. So training code gets the same type with and without it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from packer.reader.order.walk import Walk


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


class MiniBatches:
    """Iterates over mini-batches and counts those that it has returned. It holds no reference to
    them, so that their memory is free once the loop drops them.

    Args:
        columns: The collated columns of each mini-batch.
        make: Makes a mini-batch of its columns.
        walk: Advanced by each mini-batch; None: nothing is counted.
    """

    def __init__(
        self,
        columns: Iterator[dict[str, Any]],
        make: Callable[[dict[str, Any]], Any],
        walk: Walk | None = None,
    ) -> None:
        self._columns = columns
        self._make = make
        self._walk = walk

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            columns = next(self._columns)
        except StopIteration:
            if self._walk is not None:
                self._walk.ended = True
            raise
        if self._walk is not None:
            self._walk.step += self._walk.workers  # once it is returned, the training loop has it
        return self._make(columns)
