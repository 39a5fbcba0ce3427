"""How well an order shuffles, measured on a pack's own labels. No picture is read.

Three measures, each beside what a true permutation of all samples would give:

- distinct classes in a mini-batch. Of N samples, n_c of class c, B drawn without replacement hold
  sum over c of 1 - C(N - n_c, B) / C(N, B) classes on average (the hypergeometric law; Hurlbert
  1971, "The nonconcept of species diversity", Ecology 52:577, formula 16: rarefaction);
- how often two samples share a mini-batch: two samples of one on-disk batch in any epoch, and two
  that shared a mini-batch in the epoch before. Under a permutation any two do with probability
  (B - 1) / (N - 1). If each window of M samples were shuffled within itself, two samples of one
  on-disk batch would share one with probability (B - 1) / (M - 1), which is the window's prediction
  (apart from the remainder of M by B). Orders that spread a batch's samples evenly stay below;
- Spearman's rank correlation of the samples' positions in two epochs: 0 ± 1 / sqrt(N - 1) under a
  permutation. Positions are ranks, so it is their correlation coefficient.

Everything is counted exactly, over all pairs of samples, in the epochs that are looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from packer.errors import UsageError
from packer.reader.order.epoch import EpochOrder
from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule
from packer.types import Array

#: Largest part of the distinct classes under a permutation by which an order may stay below them.
TOLERANCE = 0.02
#: Number of standard errors added to the tolerance, as the mean of a few mini-batches differs from
#: its expectation by chance: a difference above 3 standard errors occurs once in 700 measurements.
_STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Quality:
    """The measurements of one order. Rates are probabilities for any pair of the kind.

    Attributes:
        shuffle: "none", "batch", "window" or "full".
        window: Number of on-disk batches, as memory allows.
        mini_batches: Number of measured mini-batches, over all epochs.
        distinct: Mean number of distinct classes in a mini-batch.
        distinct_error: Standard error of `distinct`.
        distinct_expected: The mean number under a permutation.
        together: How often two samples of one on-disk batch share a mini-batch.
        together_expected: The windows' prediction of `together`.
        again: How often two samples that shared a mini-batch share one in the next epoch.
        again_expected: The windows' prediction of `again`; None if windows are not drawn anew.
        permutation: `together` and `again` under a permutation.
        correlation: Rank correlation of positions in successive epochs: of all pairs of epochs the
            value furthest from 0.
    """

    shuffle: str
    window: int
    mini_batches: int
    distinct: float
    distinct_error: float
    distinct_expected: float
    together: float
    together_expected: float
    again: float
    again_expected: float | None
    permutation: float
    correlation: float

    @property
    def ratio(self) -> float:
        """Distinct classes, as a part of their number under a permutation."""
        return self.distinct / self.distinct_expected

    @property
    def mixes(self) -> bool:
        """Whether mini-batches hold as many classes as a permutation's, within TOLERANCE."""
        allowed = (1 - TOLERANCE) * self.distinct_expected
        return self.distinct + _STANDARD_ERRORS * self.distinct_error >= allowed


def measure(labels: Array, batch_counts: Array, schedule: Schedule, epochs: int = 3) -> Quality:
    """Measure an order.

    Args:
        labels: Class of each sample, in pack order; -1 counts as one more class.
        batch_counts: Number of samples of each on-disk batch.
        schedule: The order, of a single rank. Samples that do not fill a mini-batch are left out.
        epochs: Number of epochs to measure, from 0 on.

    Raises:
        UsageError: Too few samples for one mini-batch of at least two, or fewer than two epochs.
    """
    size = schedule.options.batch_size
    steps = schedule.samples // size
    if size < 2 or steps < 1 or epochs < 2:
        raise UsageError(
            f"nothing to measure: {schedule.samples} samples in all, {size} in a mini-batch, "
            f"{epochs} epochs",
            "mini-batches of at least 2 samples, no larger than the split, and 2 epochs",
        )
    same_batch = max(1, _pairs(batch_counts))  # with one sample in each on-disk batch: 0 of 1
    classes = np.unique(labels, return_inverse=True)[1]
    batch_of = np.repeat(np.arange(len(batch_counts)), batch_counts)
    distinct = []
    together, predicted = [], []
    again, correlations = [], []
    before: Array | None = None
    for epoch in range(epochs):
        order = schedule.order(epoch)
        samples = order.take(0, len(order))
        used = samples[: steps * size]
        mini_batch = np.repeat(np.arange(steps), size)
        distinct.append(_distinct(mini_batch, classes[used], steps))
        pairs = _pairs(_sizes(mini_batch, batch_of[used]))
        together.append(pairs / same_batch)
        predicted.append(_predicted_pairs(order, batch_counts, size))
        positions = np.empty(len(samples), np.int64)
        positions[samples] = np.arange(len(samples))
        if before is not None:
            correlations.append(float(np.corrcoef(before, positions)[0, 1]))
            again.append(_again(before, positions, size, steps))
        before = positions
    counted = np.concatenate(distinct)
    expected_pairs = float(np.mean(predicted))
    return Quality(
        shuffle=schedule.options.shuffle,
        window=schedule.options.window,
        mini_batches=len(counted),
        distinct=float(counted.mean()),
        distinct_error=float(counted.std() / math.sqrt(len(counted))),
        distinct_expected=expected_distinct(np.bincount(classes), size),
        together=float(np.mean(together)),
        together_expected=expected_pairs / same_batch,
        again=float(np.mean(again)),
        again_expected=_expected_again(expected_pairs, batch_counts, size, steps)
        if schedule.options.shuffle in ("window", "full")
        else None,
        permutation=(size - 1) / (len(labels) - 1),
        correlation=max(correlations, key=abs),
    )


def sufficient_window(
    labels: Array, batch_counts: Array, batch_bytes: Array, options: OrderOptions
) -> int | None:
    """Return the smallest window, of 2, 4, 8, … times the one in `options`, that mixes classes;
    None if no window that fits into memory does.
    """
    window = options.window * 2
    while window // 2 < len(batch_counts):
        larger = replace(options, shuffle="window", window=window)
        schedule = Schedule(batch_counts, batch_bytes, larger)
        if schedule.options.window < window:
            return None
        if measure(labels, batch_counts, schedule, 2).mixes:
            return window
        window *= 2
    return None


def expected_distinct(counts: Array, size: int) -> float:
    """Return the mean number of distinct classes among samples drawn without replacement (formula
    above).

    Args:
        counts: Number of samples of each class.
        size: Number of samples drawn, at most the sum of `counts`.
    """
    total = int(counts.sum())
    rest = [total - int(count) for count in counts if count]
    # C(rest, size) / C(total, size) by logarithms of factorials, which do not fit into a float.
    return math.fsum(
        1 - (math.exp(_log_choose(left, size) - _log_choose(total, size)) if left >= size else 0)
        for left in rest
    )


def _log_choose(many: int, few: int) -> float:
    return math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)


def _distinct(mini_batch: Array, classes: Array, steps: int) -> Array:
    """Return the number of distinct classes in each mini-batch."""
    found = np.unique(mini_batch * (int(classes.max()) + 1) + classes)
    return np.bincount(found // (int(classes.max()) + 1), minlength=steps)


def _sizes(first: Array, second: Array) -> Array:
    """Return the sizes of the groups of samples that agree in both values."""
    return np.unique(first * (int(second.max()) + 1) + second, return_counts=True)[1]


def _pairs(sizes: Array) -> int:
    """Return the number of pairs within groups of these sizes."""
    wide = sizes.astype(np.int64)
    return int((wide * (wide - 1)).sum()) // 2


def _again(before: Array, after: Array, size: int, steps: int) -> float:
    """Return the part of the pairs sharing a mini-batch in one epoch that share one in another."""
    there = (before < steps * size) & (after < steps * size)
    met = _pairs(_sizes(before[there] // size, after[there] // size))
    return met / (steps * size * (size - 1) / 2)


def _predicted_pairs(order: EpochOrder, batch_counts: Array, size: int) -> float:
    """Return the expected number of pairs of one on-disk batch in one mini-batch, if each window is
    shuffled within itself and begins with a new mini-batch.
    """
    total = 0.0
    for window in range(order.windows):
        counts = batch_counts[order.batches(window)]
        samples = int(counts.sum())
        full, rest = divmod(samples, size)
        if samples > 1:
            runs = full * _pairs(np.array([size])) + _pairs(np.array([rest]))
            total += _pairs(counts) * runs / _pairs(np.array([samples]))
    return total


def _expected_again(together: float, batch_counts: Array, size: int, steps: int) -> float:
    """Return how often pairs meet again if windows are drawn anew. Pairs of one on-disk batch meet
    at one rate, all other pairs at another.
    """
    same_batch = _pairs(batch_counts)
    every = _pairs(np.array([int(batch_counts.sum())]))
    meeting = steps * size * (size - 1) / 2
    same = together * together / same_batch if same_batch else 0.0
    others = meeting - together
    different = others * others / (every - same_batch) if every > same_batch else 0.0
    return (same + different) / meeting
