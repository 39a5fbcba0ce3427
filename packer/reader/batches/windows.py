"""Reading the on-disk batches of the window that a stream is in."""

from __future__ import annotations

import numpy as np

from packer.pack.payloads import Payloads, Span
from packer.reader.order.epoch import EpochOrder
from packer.types import Array


class WindowBuffer:
    """Reads an epoch's payloads, mini-batch after mini-batch.

    An on-disk batch of which this rank needs (nearly) all samples is announced to the kernel before
    it is used: so the storage reads it once, in one stretch, whichever workers use it. If one
    process reads alone, it then reads the whole batch once and keeps it until its last sample has
    passed. If there are several workers, each reads its own samples, which are in the page cache by
    then, and keeps nothing: with more than 20 workers, copying whole batches in each of them would
    take as long as decoding. Of a batch whose samples are mostly other ranks', or mostly not
    selected, only the needed samples are read.

    Args:
        payloads: Reads the pack.
        order: The order of the epoch.
        rank: Rank of this process.
        world_size: Number of ranks.
        workers: Number of processes that take the rank's mini-batches in turn.
    """

    def __init__(
        self, payloads: Payloads, order: EpochOrder, rank: int, world_size: int, workers: int = 1
    ) -> None:
        self._payloads = payloads
        self._needs = order.needs(rank, world_size)
        self._keeps = workers == 1
        self._spans: dict[int, Span] = {}
        #: bool, one for each batch: whether it is announced whole.
        self._whole = self._needs.whole & payloads.dense()
        whole = np.flatnonzero(self._whole)
        #: Batches to announce, in order of first need; those before `_next` were announced.
        self._queue: Array = whole[np.argsort(self._needs.first[whole], kind="stable")]
        #: Positions at which they are announced, ascending.
        self._due: Array = _spread(self._needs.first[self._queue], self._needs.ahead, order.lanes)
        self._next = 0
        self._start = 0
        if not self._whole[order.nonempty].all():
            payloads.files.expect_no_order()  # other ranks' samples lie between

    def enter(self, start: int, stop: int) -> None:
        """Move to positions [start, stop) of the sequence: free the batches before them, and let
        the kernel fetch the next ones meanwhile, several batches at a time.
        """
        needs, self._start = self._needs, start
        for batch in [batch for batch in self._spans if needs.last[batch] < start]:
            del self._spans[batch]
        due = int(np.searchsorted(self._due, stop))
        ahead = self._queue[self._next : due]
        self._payloads.advise(ahead[needs.last[ahead] >= start])
        self._next = max(self._next, due)

    def read(self, samples: Array, field: str) -> list[memoryview | None]:
        """Read one field of some samples at the present positions, in their order; None for a
        sample without the field.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
        """
        batches = self._payloads.pack.batch_of(samples)
        # Samples that pad a mini-batch may belong to a batch that has passed.
        whole = self._whole[batches] & (self._needs.last[batches] >= self._start)
        found: list[memoryview | None] = [None] * len(samples)
        self._read_apart(np.flatnonzero(~whole), samples, field, found)
        if not self._keeps:
            self._read_apart(np.flatnonzero(whole), samples, field, found, announced=True)
            return found
        inside = np.flatnonzero(whole)
        spans = [self._span(batch) for batch in batches[inside].tolist()]
        payloads = self._payloads.cut(spans, samples[inside], field)
        for place, payload in zip(inside.tolist(), payloads, strict=True):
            found[place] = payload
        return found

    def _span(self, batch: int) -> Span:
        span = self._spans.get(batch)
        if span is None:
            span = self._spans[batch] = self._payloads.span(batch)
        return span

    def _read_apart(
        self,
        places: Array,
        samples: Array,
        field: str,
        found: list[memoryview | None],
        announced: bool = False,
    ) -> None:
        """Read the samples at some places, one by one, into the same places of `found`."""
        payloads = self._payloads.read(samples[places], field, announced)
        for place, payload in zip(places.tolist(), payloads, strict=True):
            found[place] = payload


def _spread(first: Array, ahead: int, lanes: int) -> Array:
    """Return the positions at which batches are announced. Those of one round of all lanes, which
    are needed at the same time, are announced one after the other while half a round passes: all of
    them at once would fill the queues of disks and FUSE clients, and the call would wait, and
    decoding with it.

    Args:
        first: Positions at which the batches are first needed, ascending.
        ahead: Positions in a round.
        lanes: Batches in a round.
    """
    wait = np.arange(len(first)) % lanes * ahead // (2 * lanes)
    due: Array = np.maximum.accumulate(first - ahead + wait)
    return due
