"""How an epoch's on-disk batches are dealt to lanes. Pure: numbers in, numbers out.

A lane is a sequence of on-disk batches, one after another. The sequence of the epoch takes a sample
from each lane in turn. So the samples of a mini-batch come from as many on-disk batches as there
are lanes, and a rank that has some of the lanes for the whole epoch reads no batch that another
rank reads.

The turn goes through the lanes in the order of their numbers' bits reversed (0 8 4 12 2 … of 16:
the van der Corput sequence). So of any W positions in a row, W a power of two, one is in each W-th
part of the lanes, and each rank's lanes fill its mini-batches, however small these are.

That needs lanes of equal length. In each round, every lane gets one whole batch, as long as no lane
would exceed its length. The remaining batches, less than two rounds of them if all are of one size,
are cut into stretches that fill the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packer.types import Array


@dataclass(frozen=True)
class Visits:
    """Stretches of on-disk batches, sorted by lane and place in it; int64 arrays of equal length.

    Attributes:
        turn: The lanes in the order in which positions take them, over and over.
        batch: Number of the batch in the sequence that was dealt.
        lane: Number of the lane.
        start: Place in the lane of the stretch's first sample.
        offset: Place in the batch, in the order in which it is read, of the same sample.
        length: Number of samples of the stretch.
    """

    turn: Array
    batch: Array
    lane: Array
    start: Array
    offset: Array
    length: Array

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.turn)

    @property
    def first(self) -> Array:
        """int64, position in the epoch of each visit's first sample."""
        first: Array = self.start * self.lanes + np.argsort(self.turn)[self.lane]
        return first

    @property
    def last(self) -> Array:
        """int64, position in the epoch of each visit's last sample."""
        last: Array = self.first + (self.length - 1) * self.lanes
        return last


def deal(counts: Array, lanes: int) -> tuple[Visits, int]:
    """Deal batches to lanes.

    Args:
        counts: Number of samples of each batch, at least 1, in the order in which they are dealt.
        lanes: Number of lanes, at most the number of batches.

    Returns:
        The visits, and the number of rounds of whole batches: batch b of the first rounds * lanes
        is visited in round b // lanes.
    """
    total, turn = int(counts.sum()), _turn(lanes)
    dealt = counts[: len(counts) // lanes * lanes].reshape(-1, lanes)
    ends = np.cumsum(dealt, axis=0)
    rounds = int((ends.max(axis=1) <= total // lanes).sum())
    used = ends[rounds - 1] if rounds else np.zeros(lanes, np.int64)
    whole = np.arange(rounds * lanes)
    rest = _cut(counts[rounds * lanes :], (total - np.argsort(turn) + lanes - 1) // lanes - used)
    batch = np.concatenate((whole, rest.batch + len(whole)))
    lane = np.concatenate((whole % lanes, rest.lane))
    start = np.concatenate(((ends - dealt)[:rounds].ravel(), rest.start + used[rest.lane]))
    offset = np.concatenate((np.zeros(len(whole), np.int64), rest.offset))
    length = np.concatenate((counts[: len(whole)], rest.length))
    order = np.lexsort((start, lane))
    return (
        Visits(turn, batch[order], lane[order], start[order], offset[order], length[order]),
        rounds,
    )


def one_lane(counts: Array, turn: int) -> Visits:
    """Return visits to all batches, one after another.

    Args:
        counts: As for `deal`.
        turn: First sample, counted through all batches; the samples before it come last.
    """
    ends = np.cumsum(counts)
    first = int(np.searchsorted(ends, turn, "right"))
    into = turn - int(ends[first] - counts[first]) if turn else 0
    batch = np.roll(np.arange(len(counts)), -first)
    length, offset = counts[batch], np.zeros(len(batch), np.int64)
    if into:
        batch = np.append(batch, first)
        length, offset = np.append(length, into), np.append(offset, 0)
        length[0] -= into
        offset[0] = into
    start = np.cumsum(length) - length
    return Visits(_turn(1), batch, np.zeros(len(batch), np.int64), start, offset, length)


def _turn(lanes: int) -> Array:
    """Return the lanes, sorted by the reversed bits of their numbers."""
    bits = max(1, (lanes - 1).bit_length())
    reversed_bits = [int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits)]
    return np.array([lane for lane in reversed_bits if lane < lanes], np.int64)


def _cut(counts: Array, lengths: Array) -> Visits:
    """Cut a row of batches into one part for each lane."""
    batch_ends, lane_ends = np.cumsum(counts), np.cumsum(lengths)
    edges = np.unique(np.concatenate(([0], batch_ends, lane_ends)))
    start, stop = edges[:-1], edges[1:]
    batch = np.searchsorted(batch_ends, start, "right")
    lane = np.searchsorted(lane_ends, start, "right")
    place = start - (lane_ends - lengths)[lane]
    offset = start - (batch_ends - counts)[batch]
    return Visits(_turn(len(lengths)), batch, lane, place, offset, stop - start)
