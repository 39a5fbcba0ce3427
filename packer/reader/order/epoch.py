"""The order of an epoch, and how it is cut into mini-batches. Pure: numbers in, numbers out.

An epoch is one global sequence of samples, a function of (seed, epoch) alone. A global mini-batch,
that of all W ranks with B samples each, is W·B consecutive positions of it; sorted by lane, rank r
takes the r-th B samples. So at constant W·B the global mini-batches do not depend on the number of
ranks, and workers, who take them in turn, do not change them either. An epoch can be gone on with
from any position, in mini-batches of any size.

With shuffle "window", the samples of each on-disk batch are shuffled, and `window` batches are
mixed at a time: each is a lane (`packer.reader.order.lanes`). A rank is given lanes, not samples,
so ranks on different nodes do not read the same batches. On-disk batches are looked into when they
are reached, so no process holds an array as long as the epoch (shuffle "full" apart).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from packer.errors import UsageError, suggestion
from packer.reader.order.hashing import GOLDEN, combine, keys
from packer.reader.order.lanes import deal, one_lane
from packer.types import Array

SHUFFLES = ("none", "batch", "window", "full")
TAILS = ("drop", "pad", "keep")
#: Bytes of on-disk batches that a process may hold in memory. Room for two windows of 16 batches of
#: 128 samples of 125 KB, and small beside what a training process needs otherwise.
WINDOW_BYTES = 512_000_000
#: A rank reads a batch whole if it needs at least this part of it, else sample by sample: so it
#: never reads more than 1.5 times what it needs, nor most of a batch in pieces.
WORTH_WHOLE = 2 / 3

# What a hash is for: equal (seed, epoch) must not give equal numbers for different purposes.
_BATCHES, _SAMPLES, _TURN = 1, 2, 3


@dataclass(frozen=True)
class OrderOptions:
    """What a user can ask of the order. Equal on all ranks but for `rank`.

    Attributes:
        batch_size: Samples in a mini-batch of one rank.
        shuffle: none: as packed; batch: on-disk batches in random order, each as packed; window:
            on-disk batches in random order, `window` of them mixed at a time, the samples of each
            shuffled; full: all samples.
        window: In on-disk batches; made smaller where they exceed `window_bytes`.
        seed: Any integer.
        tail: What becomes of the last, partial global mini-batch. drop: left out (with shuffle
            "none", epochs from the second on begin elsewhere, so that it is not always the same);
            pad: filled up with samples from the start of the sequence; keep: left partial, each
            sample once, ranks may differ by a step. None: keep for shuffle "none", else drop.
        rank: Of this process.
        world_size: Number of ranks.
        window_bytes: Most bytes that the batches of two windows may have: one gives way to the
            next.

    Raises:
        UsageError: An invalid value.
    """

    batch_size: int
    shuffle: str = "window"
    window: int = 16
    seed: int = 0
    tail: str | None = None
    rank: int = 0
    world_size: int = 1
    window_bytes: int = WINDOW_BYTES

    def __post_init__(self) -> None:
        _check_choice("shuffle", self.shuffle, SHUFFLES)
        if self.tail is None:
            object.__setattr__(self, "tail", "keep" if self.shuffle == "none" else "drop")
        _check_choice("tail", str(self.tail), TAILS)
        for name in ("batch_size", "window", "world_size", "window_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is out of range", "at least 1")
        if not 0 <= self.rank < self.world_size:
            raise UsageError(f"rank {self.rank} is none of {self.world_size} ranks, from 0")


@dataclass(frozen=True)
class Needs:
    """The on-disk batches that one rank needs in an epoch.

    Attributes:
        whole: bool, one an on-disk batch: whether it is worth reading whole.
        first: int64, one an on-disk batch: position of its first sample that the rank may need;
            of batches that it does not need, the epoch's length.
        last: int64: position of the last one; -1 where there is none.
        ahead: How many positions ahead a batch is announced: a round of all lanes.
    """

    whole: Array
    first: Array
    last: Array
    ahead: int


class EpochOrder:
    """The global sequence of one epoch.

    Args:
        counts: Samples of each on-disk batch, in pack order; empty batches may be among them.
        options: As asked; `window` as it is (see `Schedule`).
        epoch: Its number.
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
        # Position in its lane and lane as one number, which ascends from visit to visit.
        self._ladder = self._visits.lane * (self._total + 1) + self._visits.start
        self._arranged: OrderedDict[int, Array] = OrderedDict()

    def __len__(self) -> int:
        """Number of samples."""
        return self._total

    @property
    def lanes(self) -> int:
        """Number of lanes; 1 but for shuffle "window"."""
        return self._visits.lanes

    @property
    def windows(self) -> int:
        """Number of rounds in which the lanes are dealt batches; what is cut to measure at the end
        is one more.
        """
        if self._kind == "full":
            return min(1, len(self._batches))
        return self._rounds + (self._rounds * self.lanes < len(self._batches))

    def batches(self, window: int) -> Array:
        """int64, numbers of the on-disk batches of one round."""
        if self._kind == "full":
            return self._batches
        first = window * self.lanes
        return self._batches[first : first + self.lanes if window < self._rounds else None]

    @property
    def nonempty(self) -> Array:
        """int64, numbers of the on-disk batches that hold samples, in the epoch's order."""
        return self._batches

    def take(self, start: int, stop: int) -> Array:
        """int64, the samples at positions [start, stop). Positions beyond the end start over at the
        beginning.
        """
        return self.at(np.arange(start, stop))

    def mini_batch(self, start: int, stop: int) -> Array:
        """int64, positions [start, stop) in the order in which ranks divide them up: by lane, those
        beyond the end last.
        """
        inside = np.arange(start, min(stop, self._total))
        inside = inside[np.argsort(self._visits.turn[inside % self.lanes], kind="stable")]
        return np.concatenate((inside, np.arange(max(start, self._total), stop)))

    def at(self, positions: Array) -> Array:
        """int64, the samples at some positions, which start over beyond the end."""
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
        """The on-disk batches that a rank needs, and when."""
        visits, count = self._visits, len(self._counts)
        low, high = rank * self.lanes / world_size, (rank + 1) * self.lanes / world_size
        lane = np.arange(self.lanes)
        share = np.clip(np.minimum(lane + 1, high) - np.maximum(lane, low), 0, 1)[visits.lane]
        batch = self._batches[visits.batch]
        needed = np.bincount(batch, share * visits.length, count)
        # In order of the pack, what a rank needs of a batch is one stretch, and read as such.
        worth = WORTH_WHOLE if self._kind == "window" else 1.0
        whole = (needed >= worth * self._counts - 1e-6) & (needed > 0) & (self._kind != "full")
        first, last = np.full(count, self._total), np.full(count, -1)
        mine = share > 0
        np.minimum.at(first, batch[mine], visits.first[mine])
        np.maximum.at(last, batch[mine], visits.last[mine])
        rounds = max(1, len(self._batches) // self.lanes)
        return Needs(whole, first, last, -(-self._total // rounds))

    def _turn(self, options: OrderOptions, epoch: int) -> int:
        """Where the sequence begins, in batches in a row. Were it always at the beginning of one, a
        rank would get the same part of each batch in every epoch, or the same samples would be
        dropped.
        """
        if self._kind == "batch" and len(self._batches):
            return combine(self._state, _TURN) % int(self._counts[self._batches[0]])
        if self._kind == "none" and options.tail == "drop":
            # In any three epochs nothing is left out of all: they begin at 0, 0.62, 0.24.
            return (epoch * GOLDEN % 2**64) * self._total >> 64
        return 0

    def _inside(self, batch: int) -> Array:
        """A batch's samples, shuffled."""
        found = self._arranged.get(batch)
        if found is None:
            samples = self._first[batch] + np.arange(self._counts[batch])
            found = self._arranged[batch] = _shuffled(samples, combine(self._state, _SAMPLES))
            # Sequences are walked forwards: no more is worth keeping than a window on its way
            # from one round to the next.
            while len(self._arranged) > 2 * self.lanes:
                self._arranged.popitem(last=False)
        self._arranged.move_to_end(batch)
        return found

    def _whole(self) -> Array:
        """All samples, shuffled."""
        if 0 not in self._arranged:
            samples = np.arange(self._total)
            self._arranged[0] = _shuffled(samples, combine(self._state, _SAMPLES))
        return self._arranged[0]


class Schedule:
    """All epochs of a pack for one rank: how many mini-batches, and what is in each.

    Args:
        counts: Samples of each on-disk batch.
        batch_bytes: Bytes of each on-disk batch.
        options: As asked.

    Attributes:
        options: With the window that the bytes allow.
        samples: Number of samples of an epoch.
        stride: Samples of a global mini-batch.
    """

    def __init__(self, counts: Array, batch_bytes: Array, options: OrderOptions) -> None:
        self.options = replace(options, window=fitting_window(batch_bytes, options))
        self.samples = int(counts.sum(dtype=np.int64))
        self.stride = options.batch_size * options.world_size
        self._counts = counts

    def __len__(self) -> int:
        """Number of mini-batches of an epoch on this rank."""
        return self.steps(0)

    def steps(self, start: int) -> int:
        """Number of mini-batches on this rank from a position of the epoch on."""
        options = self.options
        full, rest = divmod(max(0, self.samples - start), self.stride)
        if options.tail == "pad":
            return full + (rest > 0)
        if options.tail == "keep":
            return full + (rest > options.rank * options.batch_size)
        return full

    def global_steps(self, start: int, stride: int) -> int:
        """Number of global mini-batches of `stride` samples from a position of the epoch on: the
        steps of the rank that has most.
        """
        left = max(0, self.samples - start)
        return left // stride if self.options.tail == "drop" else -(-left // stride)

    def ended(self, start: int) -> bool:
        """Whether no rank has a mini-batch from a position of the epoch on."""
        least = self.stride if self.options.tail == "drop" else 1
        return start + least > self.samples

    def span(self, step: int, start: int = 0) -> tuple[int, int]:
        """First position of the global mini-batch `step`, and the one after its last.

        Args:
            step: Number of the mini-batch, from 0.
            start: Position in the epoch from which it is counted.
        """
        first = start + step * self.stride
        stop = first + self.stride
        return first, (min(stop, self.samples) if self.options.tail == "keep" else stop)

    def mini_batch(self, order: EpochOrder, step: int, start: int = 0) -> Array:
        """int64, the samples of this rank's mini-batch; arguments as for `span`."""
        size = self.options.batch_size
        place = self.options.rank * size
        return order.at(order.mini_batch(*self.span(step, start))[place : place + size])

    def order(self, epoch: int) -> EpochOrder:
        """The sequence of one epoch."""
        return EpochOrder(self._counts, self.options, epoch)


def fitting_window(batch_bytes: Array, options: OrderOptions) -> int:
    """The window in batches, such that two of them do not exceed `options.window_bytes`; a power of
    two if it has to be made smaller, as numbers of ranks are.

    Depends on the pack and the options alone, so it is equal on all ranks.
    """
    largest = max(int(batch_bytes.max(initial=1)), 1)
    fits = max(1, options.window_bytes // (2 * largest))
    return options.window if options.window <= fits else 1 << (fits.bit_length() - 1)


def _shuffled(numbers: Array, state: int) -> Array:
    return numbers[np.argsort(keys(state, numbers), kind="stable")]


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"unknown {what} {value!r}", suggestion(value, choices))
