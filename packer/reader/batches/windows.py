"""What a stream reads of the on-disk batches that it is in."""

from __future__ import annotations

import numpy as np

from packer.pack.payloads import Payloads, Span
from packer.reader.order.epoch import EpochOrder
from packer.types import Array


class WindowBuffer:
    """Reads an epoch's payloads as its sequence is walked.

    An on-disk batch that this rank needs (nearly) whole is announced to the kernel, whole, before
    it is used: so the storage sees it once, in one stretch, whichever workers use it. A process
    that reads alone then reads it whole, once, and keeps it until its last sample has passed. One
    of several workers reads its own samples of it, which are in the page cache by then, and holds
    nothing: copying whole batches in each of n workers would cost as much as decoding, for n above
    20. Of batches that are mostly other ranks', or mostly not selected, what is wanted is read.

    Args:
        payloads: Where to read.
        order: The epoch.
        rank: Of this process.
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
        #: Batches that are read, or at least announced, whole.
        self._whole = self._needs.whole & payloads.dense()
        whole = np.flatnonzero(self._whole)
        #: Batches to announce whole, in order of first need; those before `_next` are.
        self._queue: Array = whole[np.argsort(self._needs.first[whole], kind="stable")]
        #: Positions at which they are announced, ascending.
        self._due: Array = _spread(self._needs.first[self._queue], self._needs.ahead, order.lanes)
        self._next = 0
        self._start = 0
        if not self._whole[order.nonempty].all():
            payloads.files.expect_no_order()  # what lies between a rank's samples is others'

    def enter(self, start: int, stop: int) -> None:
        """Go on to positions [start, stop) of the sequence: let go of what lies behind, and let the
        kernel fetch what comes next while this is used, several batches at a time.
        """
        needs, self._start = self._needs, start
        for batch in [batch for batch in self._spans if needs.last[batch] < start]:
            del self._spans[batch]
        due = int(np.searchsorted(self._due, stop))
        ahead = self._queue[self._next : due]
        self._payloads.advise(ahead[needs.last[ahead] >= start])
        self._next = max(self._next, due)

    def read(self, samples: Array, field: str) -> list[memoryview | None]:
        """One field of some samples of the positions entered, in order; None where a sample lacks
        it.

        Raises:
            DamageError: Not what the index says.
            PackerError: The file system failed.
        """
        batches = self._payloads.pack.batch_of(samples)
        # What a mini-batch is padded with may be of a batch that has passed.
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
        """Read the samples at some places, each by itself, into the same places of `found`."""
        payloads = self._payloads.read(samples[places], field, announced)
        for place, payload in zip(places.tolist(), payloads, strict=True):
            found[place] = payload


def _spread(first: Array, ahead: int, lanes: int) -> Array:
    """When batches are announced: those of a round of all lanes, which are needed at once, one
    after the other while half a round passes. All in one go they would be more than disks and FUSE
    clients queue: the call would wait for them, and decoding with it.

    Args:
        first: Positions at which the batches are first needed, ascending.
        ahead: Positions in a round.
        lanes: Batches in a round.
    """
    wait = np.arange(len(first)) % lanes * ahead // (2 * lanes)
    due: Array = np.maximum.accumulate(first - ahead + wait)
    return due
