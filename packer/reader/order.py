"""The order of an epoch, and how it is cut into mini-batches. Pure: numbers in, numbers out.

An epoch is one global sequence of samples, a function of (seed, epoch) alone. Global mini-batch g
of W ranks with mini-batches of B samples is positions [g·W·B, (g+1)·W·B) of it; rank r takes the
r-th B of these. So at constant W·B the sequence does not depend on the number of ranks, and
workers, who take the mini-batches in turn, do not change it either.

The sequence is a row of windows. A window is a few on-disk batches whose samples are shuffled
together; it is worked out when it is reached, so no process holds an array as long as the epoch
(shuffle "full" apart, which is one window over everything).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from packer.errors import UsageError, suggestion
from packer.reader.hashing import combine, keys
from packer.types import Array

SHUFFLES = ("none", "batch", "window", "full")
TAILS = ("drop", "pad", "keep")
#: Bytes that the batches of one window may hold in memory, a process. Room for 16 batches of 128
#: samples of 250 KB, and small beside what a training process needs otherwise.
WINDOW_BYTES = 512_000_000

# What a hash is for: equal (seed, epoch) must not give equal numbers for different purposes.
_BATCHES, _SAMPLES, _TURN = 1, 2, 3


@dataclass(frozen=True)
class OrderOptions:
    """What a user can ask of the order. Equal on all ranks but for `rank`.

    Attributes:
        batch_size: Samples in a mini-batch of one rank.
        shuffle: none: as packed; batch: on-disk batches in random order, each as packed; window:
            the samples of `window` batches, drawn at random, shuffled together; full: all samples.
        window: In on-disk batches; made smaller where they exceed `window_bytes`.
        seed: Any integer.
        tail: What becomes of the last, partial global mini-batch. drop: left out; pad: filled up
            with samples from the start of the sequence; keep: left partial, each sample once,
            ranks may differ by a step. None: keep for shuffle "none", else drop.
        rank: Of this process.
        world_size: Number of ranks.
        window_bytes: Most bytes that a window's batches may have.

    Raises:
        UsageError: A value that cannot be.
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
class Piece:
    """Consecutive positions of the sequence that lie in one window.

    Attributes:
        window: Its number in the epoch; None where samples are to be read one by one, as the
            batches they come from are not read together (shuffle "full", padding).
        samples: int64, sample numbers in order.
    """

    window: int | None
    samples: Array


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
        self._kind = options.shuffle
        self._state = combine(options.seed, epoch)
        batches = np.flatnonzero(self._counts)
        if self._kind != "none":
            batches = _shuffled(batches, combine(self._state, _BATCHES))
        self._batches = batches
        windows = len(batches)
        if self._kind == "full":
            windows = min(1, windows)
        elif self._kind == "window":
            windows = -(-windows // options.window)
        # Windows of even size: a rest of one lonely batch would be shuffled with nothing.
        self._edges = np.arange(windows + 1, dtype=np.int64) * len(batches) // max(windows, 1)
        ends = np.concatenate(([0], np.cumsum(self._counts[batches])))
        self._starts = ends[self._edges]
        self._recent: tuple[int, Array] | None = None

    def __len__(self) -> int:
        """Number of samples."""
        return int(self._starts[-1])

    @property
    def windows(self) -> int:
        """Number of windows."""
        return len(self._edges) - 1

    def batches(self, window: int) -> Array:
        """int64, numbers of the on-disk batches of one window, in order of first need."""
        return self._batches[self._edges[window] : self._edges[window + 1]]

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The samples at positions [start, stop), window by window.

        Positions beyond the end are padding: they start over at the beginning.
        """
        total = len(self)
        for piece in self._pieces(start, min(stop, total)):
            yield piece if self._kind != "full" else Piece(None, piece.samples)
        position = max(start, total)
        while position < stop and total:
            first = position % total
            last = min(first + stop - position, total)
            for piece in self._pieces(first, last):
                yield Piece(None, piece.samples)
            position += last - first

    def take(self, start: int, stop: int) -> Array:
        """int64, the samples at positions [start, stop); beyond the end as in `pieces`."""
        parts = [piece.samples for piece in self.pieces(start, stop)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _pieces(self, start: int, stop: int) -> Iterator[Piece]:
        window = int(np.searchsorted(self._starts, start, "right")) - 1
        while start < stop:
            offset, end = int(self._starts[window]), int(self._starts[window + 1])
            yield Piece(window, self._samples(window)[start - offset : min(stop, end) - offset])
            start, window = end, window + 1

    def _samples(self, window: int) -> Array:
        # Sequences are walked forwards: the window asked for last is all that is worth keeping.
        if self._recent is None or self._recent[0] != window:
            self._recent = (window, self._arrange(window))
        return self._recent[1]

    def _arrange(self, window: int) -> Array:
        batches = self.batches(window)
        samples = _ranges(self._first[batches], self._counts[batches])
        if self._kind in ("window", "full"):
            return _shuffled(samples, combine(self._state, _SAMPLES))
        if self._kind == "batch" and window == self.windows - 1:
            # The end of the last batch may be dropped. Were a pack's only batch always read from
            # its first sample on, its last samples would never be seen.
            return np.roll(samples, combine(self._state, _TURN) % len(samples))
        return samples


class Schedule:
    """All epochs of a pack for one rank: how many mini-batches, and what is in each.

    Args:
        counts: Samples of each on-disk batch.
        batch_bytes: Bytes of each on-disk batch.
        options: As asked.

    Attributes:
        options: With the window that the bytes allow.
        samples: Number of samples of an epoch.
    """

    def __init__(self, counts: Array, batch_bytes: Array, options: OrderOptions) -> None:
        self.options = replace(options, window=fitting_window(batch_bytes, options))
        self.samples = int(counts.sum(dtype=np.int64))
        self._counts = counts

    def __len__(self) -> int:
        """Number of mini-batches of an epoch on this rank."""
        options = self.options
        full, rest = divmod(self.samples, options.batch_size * options.world_size)
        if options.tail == "pad":
            return full + (rest > 0)
        if options.tail == "keep":
            return full + (rest > options.rank * options.batch_size)
        return full

    def bounds(self, step: int) -> tuple[int, int]:
        """First position in the sequence of mini-batch `step`, and the one after its last."""
        options = self.options
        start = (step * options.world_size + options.rank) * options.batch_size
        stop = start + options.batch_size
        return start, (min(stop, self.samples) if options.tail == "keep" else stop)

    def order(self, epoch: int) -> EpochOrder:
        """The sequence of one epoch."""
        return EpochOrder(self._counts, self.options, epoch)


def fitting_window(batch_bytes: Array, options: OrderOptions) -> int:
    """The window in batches, such that no window exceeds `options.window_bytes`.

    Depends on the pack and the options alone, so it is equal on all ranks.
    """
    largest = int(batch_bytes.max(initial=1))
    return max(1, min(options.window, options.window_bytes // max(largest, 1)))


def _shuffled(numbers: Array, state: int) -> Array:
    return numbers[np.argsort(keys(state, numbers), kind="stable")]


def _ranges(first: Array, counts: Array) -> Array:
    """first[0], first[0] + 1, … counts[0] of them, then those of first[1], and so on."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1], dtype=np.int64)


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"unknown {what} {value!r}", suggestion(value, choices))
