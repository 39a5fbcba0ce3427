"""The order of an epoch. Pure: numbers in, numbers out.

An epoch is one global sequence of samples, a function of (seed, epoch) alone.

With shuffle "window", the samples of each on-disk batch are shuffled, and `window` batches are
mixed at a time: each is a lane (`packer.reader.order.lanes`). A rank is given lanes, not samples,
so ranks on different nodes do not read the same batches. The order within an on-disk batch is
computed when the batch is reached, so no process holds an array as long as the epoch (except with
shuffle "full").
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from packer.reader.order.hashing import GOLDEN, combine, keys
from packer.reader.order.lanes import deal, one_lane
from packer.reader.order.options import OrderOptions
from packer.types import Array

#: A rank reads a batch whole if it needs at least this part of it, else sample by sample. So it
#: never reads more than 1.5 times the bytes that it needs, and never most of a batch in pieces.
WORTH_WHOLE = 2 / 3

# Purposes of hashes: equal (seed, epoch) must not give equal numbers for different purposes.
_BATCHES, _SAMPLES, _TURN = 1, 2, 3


@dataclass(frozen=True)
class Needs:
    """The on-disk batches that one rank needs in an epoch.

    Attributes:
        whole: bool, one for each on-disk batch: whether to read it whole.
        first: int64, one for each on-disk batch: position of the first sample that the rank may
            need; the epoch's length if it needs none.
        last: int64, one for each on-disk batch: position of the last such sample; -1 if there is
            none.
        ahead: Number of positions by which a batch is announced before its first need: a round of
            all lanes.
    """

    whole: Array
    first: Array
    last: Array
    ahead: int


class EpochOrder:
    """The global sequence of one epoch.

    Args:
        counts: Number of samples of each on-disk batch, in pack order; 0 is allowed.
        options: Options of the order; their window is used as it is (see `Schedule`).
        epoch: Number of the epoch.
    """

    def __init__(self, counts: Array, options: OrderOptions, epoch: int) -> None:
        self._counts = counts.astype(np.int64)
        self._first = np.cumsum(self._counts) - self._counts
        self._total = int(self._counts.sum())
        self._kind = options.shuffle
        self._state = combine(options.seed, epoch)
        batches = np.flatnonzero(self._counts)
        if self._kind != "none":
            batches = _shuffled(batches, combine(self._state, _BATCHES))
        self._batches: Array = batches
        self._rounds = len(batches)
        if self._kind == "window":
            lanes = max(1, min(options.window, len(batches)))
            self._visits, self._rounds = deal(self._counts[batches], lanes)
        else:
            self._visits = one_lane(self._counts[batches], self._turn(options, epoch))
        # Lane and position in the lane as one number, which ascends from visit to visit.
        self._ladder = self._visits.lane * (self._total + 1) + self._visits.start
        self._arranged: OrderedDict[int, Array] = OrderedDict()

    def __len__(self) -> int:
        """Number of samples."""
        return self._total

    @property
    def lanes(self) -> int:
        """Number of lanes; 1 unless shuffle is "window"."""
        return self._visits.lanes

    @property
    def windows(self) -> int:
        """Number of rounds in which batches are dealt to lanes; the batches that are cut to size at
        the end count as one more round.
        """
        if self._kind == "full":
            return min(1, len(self._batches))
        return self._rounds + (self._rounds * self.lanes < len(self._batches))

    def batches(self, window: int) -> Array:
        """Return int64, the numbers of the on-disk batches of one round."""
        if self._kind == "full":
            return self._batches
        first = window * self.lanes
        return self._batches[first : first + self.lanes if window < self._rounds else None]

    @property
    def nonempty(self) -> Array:
        """int64, numbers of the on-disk batches that hold samples, in the epoch's order."""
        return self._batches

    def take(self, start: int, stop: int) -> Array:
        """Return int64, the samples at positions [start, stop). Positions beyond the end continue
        at the beginning.
        """
        return self.at(np.arange(start, stop))

    def mini_batch(self, start: int, stop: int) -> Array:
        """Return int64, positions [start, stop) in the order in which they are divided among ranks:
        by lane, positions beyond the end last.
        """
        inside = np.arange(start, min(stop, self._total))
        inside = inside[np.argsort(self._visits.turn[inside % self.lanes], kind="stable")]
        return np.concatenate((inside, np.arange(max(start, self._total), stop)))

    def at(self, positions: Array) -> Array:
        """Return int64, the samples at some positions; those beyond the end continue at the
        beginning.
        """
        if not self._total:
            return np.zeros(0, np.int64)
        positions = positions % self._total
        if self._kind == "full":
            return self._whole()[positions]
        place, column = np.divmod(positions, self.lanes)
        lane = self._visits.turn[column]
        rung = lane * (self._total + 1) + place
        visit = np.searchsorted(self._ladder, rung, "right") - 1
        batch = self._batches[self._visits.batch[visit]]
        within = self._visits.offset[visit] + place - self._visits.start[visit]
        if self._kind != "window":
            stored: Array = self._first[batch] + within
            return stored
        found = np.empty(len(positions), np.int64)
        order = np.argsort(batch, kind="stable")
        for group in np.split(order, np.flatnonzero(np.diff(batch[order])) + 1):
            if len(group):
                found[group] = self._inside(int(batch[group[0]]))[within[group]]
        return found

    def needs(self, rank: int, world_size: int) -> Needs:
        """Return which on-disk batches a rank needs, and when."""
        visits, count = self._visits, len(self._counts)
        low, high = rank * self.lanes / world_size, (rank + 1) * self.lanes / world_size
        lane = np.arange(self.lanes)
        share = np.clip(np.minimum(lane + 1, high) - np.maximum(lane, low), 0, 1)[visits.lane]
        batch = self._batches[visits.batch]
        needed = np.bincount(batch, share * visits.length, count)
        # In pack order, the samples that a rank needs of a batch are one stretch, read as such.
        worth = WORTH_WHOLE if self._kind == "window" else 1.0
        whole = (needed >= worth * self._counts - 1e-6) & (needed > 0) & (self._kind != "full")
        first, last = np.full(count, self._total), np.full(count, -1)
        mine = share > 0
        np.minimum.at(first, batch[mine], visits.first[mine])
        np.maximum.at(last, batch[mine], visits.last[mine])
        rounds = max(1, len(self._batches) // self.lanes)
        return Needs(whole, first, last, -(-self._total // rounds))

    def _turn(self, options: OrderOptions, epoch: int) -> int:
        """Return the sample, counted through all batches, at which the sequence begins. If it were
        always the first one of a batch, a rank would get the same part of each batch in every
        epoch, or the same samples would be dropped.
        """
        if self._kind == "batch" and len(self._batches):
            return combine(self._state, _TURN) % int(self._counts[self._batches[0]])
        if self._kind == "none" and options.tail == "drop":
            # No sample is left out of three epochs in a row: they begin at 0, 0.62, 0.24.
            return (epoch * GOLDEN % 2**64) * self._total >> 64
        return 0

    def _inside(self, batch: int) -> Array:
        """Return a batch's samples, shuffled."""
        found = self._arranged.get(batch)
        if found is None:
            samples = self._first[batch] + np.arange(self._counts[batch])
            found = self._arranged[batch] = _shuffled(samples, combine(self._state, _SAMPLES))
            # Sequences are read forwards: it is enough to keep one window while the next one
            # begins.
            while len(self._arranged) > 2 * self.lanes:
                self._arranged.popitem(last=False)
        self._arranged.move_to_end(batch)
        return found

    def _whole(self) -> Array:
        """Return all samples, shuffled."""
        if 0 not in self._arranged:
            samples = np.arange(self._total)
            self._arranged[0] = _shuffled(samples, combine(self._state, _SAMPLES))
        return self._arranged[0]


def _shuffled(numbers: Array, state: int) -> Array:
    return numbers[np.argsort(keys(state, numbers), kind="stable")]
