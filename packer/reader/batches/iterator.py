"""The iterator that a training loop reads from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packer.reader.batches.fields import Fields
from packer.reader.order.walk import Walk


class MiniBatches:
    """Iterates over mini-batches and counts those that it has returned. It holds no reference to
    them, so that their memory is free once the loop drops them.

    Args:
        columns: The collated columns of each mini-batch.
        fields: Makes a mini-batch of its columns.
        walk: What is advanced by each mini-batch; None: nothing is counted.
    """

    def __init__(
        self, columns: Iterator[dict[str, Any]], fields: Fields, walk: Walk | None = None
    ) -> None:
        self._columns = columns
        self._fields = fields
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
        return self._fields.mini_batch(columns)
