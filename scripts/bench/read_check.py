"""Check the epoch of a reader, for `bench_read.py`."""

from __future__ import annotations

import functools
import statistics
from pathlib import Path
from typing import Any

from bench.read_work import BATCH, CROP, pack_of, transforms
from packer.reader import PackedDataset

#: Tolerance of the mean of all values, in levels of 255: decoders and rounding differ.
MEAN_TOLERANCE = 1.5
#: Standard deviation of a random crop's mean from its picture's, in levels of 255.
CROP_DEVIATION = 25.0


def complaint(seen: dict[str, Any], data: Path, task: str) -> str | None:
    """Return how a reader's epoch differs from the pack; None if it does not."""
    count, labels, mean = expected(data, task)
    if abs(seen["images"] - count) >= BATCH:
        return f"gave {seen['images']} of {count} pictures"
    # Some readers fill up or drop the last mini-batch: then the sum of the labels differs.
    if seen["images"] == count and seen.get("labels", labels) != labels:
        return f"labels add up to {seen['labels']}, not {labels}"
    if "dtype" in seen and (seen["dtype"], seen["shape"]) != ("uint8", [3, CROP, CROP]):
        return f"gave no uint8 pictures of {CROP}×{CROP}"
    tolerance = MEAN_TOLERANCE
    if task == "train":
        tolerance += 5 * CROP_DEVIATION / count**0.5  # five standard errors
    if abs(seen.get("mean", mean) - mean) > tolerance:
        return f"mean of all values {seen['mean']:.2f}, not {mean:.2f} ± {tolerance:.2f}"
    return None


@functools.cache
def expected(data: Path, task: str) -> tuple[int, int, float]:
    """Return the number of pictures, the sum of their labels and the mean of all values."""
    dataset = PackedDataset(pack_of(data, task), transform=transforms(task), decode="numpy")
    means = [float(dataset[number][0].mean()) for number in range(len(dataset))]
    return len(dataset), sum(dataset.targets), statistics.fmean(means)
