"""How well each way of shuffling mixes, and whether training notices.

    python scripts/bench_shuffle.py [--small]

No pictures: indexes are drawn with the sizes of Caltech-256 (24,000 samples, 257 classes, on-disk
batches of 128) and ImageNet (1.28 million, 1,000 classes), in random order, as `packer convert`
packs, and sorted by class. `packer info --shuffle PACK` prints the same measures of a pack.

The training runs fit a small network to drawn points, an order each, from the same starting
weights, and compare its accuracy on other points. All orders see the same points equally often.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from packer.reader.order.options import OrderOptions
from packer.reader.order.quality import Quality, measure
from packer.reader.order.schedule import Schedule
from packer.types import Array

#: Bytes of an on-disk batch: 128 pictures of 26 KB, Caltech-256's at 256 pixels.
BATCH, BATCH_BYTES = 128, 128 * 26_000
WINDOWS = (1, 2, 4, 8, 16, 32, 64)
ORDERS = [("none", 1), ("batch", 1), *(("window", window) for window in WINDOWS), ("full", 1)]


@dataclass(frozen=True)
class Result:
    """Accuracies on unseen points, one a seed, of training in one order."""

    packed: str
    shuffle: str
    window: int
    accuracies: list[float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(self.accuracies))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.accuracies, ddof=1) / math.sqrt(len(self.accuracies)))


def main() -> None:
    """Measure and print."""
    options = parse()
    report: dict[str, Any] = {"schema": "packer-bench-shuffle-1", "measured": {}, "trained": []}
    for title, labels in indexes(options.small):
        found = [quality(labels, shuffle, window, options) for shuffle, window in ORDERS]
        print(f"{title}, mini-batches of {options.batch_size}, {options.epochs} epochs")
        print(table(found), end="\n\n")
        report["measured"][title] = [asdict(entry) for entry in found]
    results = list(train_all(options.seeds))
    print(f"accuracy on unseen points after 6 epochs, {options.seeds} seeds: mean ± standard error")
    for result in results:
        name = f"{result.shuffle} {result.window}" if result.shuffle == "window" else result.shuffle
        print(f"{result.packed:<10}{name:<12}{result.mean:7.2%} ± {result.error:.2%}")
        report["trained"].append(asdict(result))
    print(verdict(results))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=5, help="training runs of each order")
    parser.add_argument("--small", action="store_true", help="the index of 24,000 samples alone")
    parser.add_argument("--json", type=Path, help="write all measurements there")
    return parser.parse_args()


def indexes(small: bool) -> Iterator[tuple[str, Array]]:
    """Labels in pack order, with a title."""
    random = np.random.default_rng(0)
    # Caltech-256's classes have 80 to 827 pictures, most of them near 100.
    sizes = np.clip(80 + random.exponential(39, 257), 80, 827)
    caltech = np.repeat(np.arange(257), np.round(sizes * 24_000 / sizes.sum()).astype(int))
    imagenet = np.repeat(np.arange(1000), 1281)
    for name, labels in [("Caltech-256", caltech)] + ([] if small else [("ImageNet", imagenet)]):
        title = f"{name}'s sizes, {len(labels):,} samples"
        yield f"{title}, packed in random order", random.permutation(labels)
        yield f"{title}, sorted by class", labels


def quality(labels: Array, shuffle: str, window: int, options: argparse.Namespace) -> Quality:
    """Measure one order."""
    counts = np.full(-(-len(labels) // BATCH), BATCH)
    counts[-1] = len(labels) - BATCH * (len(counts) - 1)
    asked = OrderOptions(options.batch_size, shuffle, window)
    schedule = Schedule(counts, np.full(len(counts), BATCH_BYTES), asked)
    return measure(labels, counts, schedule, options.epochs)


def table(found: list[Quality]) -> str:
    """One line an order; rates as multiples of a permutation's."""
    first = found[0]
    lines = [
        f"a permutation: {first.distinct_expected:.2f} classes a mini-batch, two samples meet with "
        f"probability {first.permutation:.6f}",
        f"{'shuffle':<12}{'classes':>9}{'of perm.':>10}{'same batch':>13}{'predicted':>11}"
        f"{'again':>11}{'predicted':>11}{'rank corr.':>12}{'MB held':>9}",
    ]
    for entry in found:
        name = f"window {entry.window}" if entry.shuffle == "window" else entry.shuffle
        held = entry.window * BATCH_BYTES / 1e6 if entry.shuffle in ("window", "batch") else 0
        again = entry.again_expected
        unit = entry.permutation
        lines.append(
            f"{name:<12}{entry.distinct:>9.2f}{entry.ratio:>10.1%}"
            f"{entry.together / unit:>12.2f}x{entry.together_expected / unit:>10.2f}x"
            f"{entry.again / unit:>10.2f}x"
            f"{'-' if again is None else f'{again / unit:.2f}x':>11}"
            f"{entry.correlation:>+12.3f}{f'{held:.0f}' if held else '-':>9}"
        )
    return "\n".join(lines)


class Points:
    """Drawn data: two clouds of points a class, around random centres."""

    CLASSES, DIMENSIONS, EACH = 20, 16, 320

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        centres = random.normal(0, 1, (self.CLASSES, 2, self.DIMENSIONS))

        def draw(each: int) -> tuple[Array, Array]:
            labels = np.repeat(np.arange(self.CLASSES), each)
            cloud = random.integers(0, 2, len(labels))
            noise = random.normal(0, 1.4, (len(labels), self.DIMENSIONS))
            return centres[labels, cloud] + noise, labels

        self.train = draw(self.EACH)
        self.test = draw(200)
        self.mixed = random.permutation(len(self.train[1]))


def train_all(seeds: int) -> Iterator[Result]:
    """Train in several orders, on points packed in random order and sorted by class."""
    for packed in ("random", "sorted"):
        for shuffle, window in (("none", 1), ("batch", 1), ("window", 16), ("full", 1)):
            accuracies = []
            for seed in range(seeds):
                points = Points(seed)
                order = points.mixed if packed == "random" else np.arange(len(points.mixed))
                accuracies.append(accuracy(points, order, OrderOptions(32, shuffle, window, seed)))
            yield Result(packed, shuffle, window, accuracies)


def accuracy(points: Points, packed: Array, options: OrderOptions, epochs: int = 6) -> float:
    """Train a network of one hidden layer by plain gradient descent; its accuracy on the test
    points. On-disk batches of 32: 200 of them, about as many as Caltech-256 has of 128.
    """
    counts = np.full(len(packed) // 32, 32)
    schedule = Schedule(counts, counts, options)
    random = np.random.default_rng(options.seed)
    first = random.normal(0, 0.25, (points.DIMENSIONS, 64))
    second = random.normal(0, 0.125, (64, points.CLASSES))
    inputs, labels = points.train[0][packed], points.train[1][packed]
    for epoch in range(epochs):
        rate = 0.15 * (1 - epoch / epochs)
        order = schedule.order(epoch)
        samples = order.take(0, len(order))
        for start in range(0, len(samples) - 31, 32):
            chosen = samples[start : start + 32]
            hidden = np.maximum(inputs[chosen] @ first, 0)
            error = softmax(hidden @ second)
            error[np.arange(32), labels[chosen]] -= 1
            error /= 32
            back = (error @ second.T) * (hidden > 0)
            second -= rate * hidden.T @ error
            first -= rate * inputs[chosen].T @ back
    guesses = (np.maximum(points.test[0] @ first, 0) @ second).argmax(axis=1)
    return float((guesses == points.test[1]).mean())


def softmax(values: Array) -> Array:
    """Row by row."""
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    share: Array = powers / powers.sum(axis=1, keepdims=True)
    return share


def verdict(results: list[Result]) -> str:
    """Whether window and full differ by more than two standard errors. Each seed has points of its
    own, on which both were trained: differences a seed say more than the two means.
    """
    by_order = {(result.packed, result.shuffle): result for result in results}
    lines = []
    for packed in ("random", "sorted"):
        pairs = zip(
            by_order[packed, "window"].accuracies, by_order[packed, "full"].accuracies, strict=True
        )
        differences = [window - full for window, full in pairs]
        mean = float(np.mean(differences))
        error = float(np.std(differences, ddof=1) / math.sqrt(len(differences)))
        words = "within" if abs(mean) <= 2 * error else "more than"
        lines.append(
            f"{packed}: window - full, a seed each: {mean:+.2%} ± {error:.2%}, "
            f"{words} two standard errors"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
