"""Which samples `PackedDataset.select` takes: masks of numbers, classes and fractions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from packer.arguments import check_names
from packer.errors import UsageError, suggestion
from packer.pack.opened import Pack
from packer.reader.order.hashing import combine, keys
from packer.types import Array

# Makes this hash differ from those of the order.
_FRACTION = 32


def listed(pack: Pack, samples: Array | Sequence[int]) -> Array:
    """The mask of samples that are given by their numbers, or by a mask.

    Raises:
        UsageError: A number is invalid or is there twice; or a mask has another length.
    """
    given = np.asarray(samples)
    if given.dtype == np.bool_:
        if given.shape != (len(pack),):
            raise UsageError(f"samples: a mask of shape {given.shape} for {len(pack)} samples")
        return given
    if not given.size:
        return np.zeros(len(pack), np.bool_)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise UsageError("samples: neither sample numbers nor a mask", "integers, or booleans")
    if given.min() < 0 or given.max() >= len(pack):
        raise UsageError(f"samples: {given.min()} to {given.max()}, but there are {len(pack)}")
    counts = np.bincount(given, minlength=len(pack))
    if counts.max() > 1:
        raise UsageError(
            f"samples: {int(counts.argmax())} is there twice",
            "a sampler such as WeightedRandomSampler repeats samples",
        )
    return counts.astype(np.bool_)


def sample_number(index: SupportsIndex, count: int) -> int:
    """A sample's number, from 0, of an index that counts from the end if it is negative.

    Raises:
        TypeError: The index is no integer.
        IndexError: There are only `count` samples.
    """
    try:
        number = operator.index(index)
    except TypeError:
        raise TypeError(
            f"a sample's number is an integer, not {type(index).__name__}; "
            "several samples: select(samples=…), or a slice; a WindowSampler: "
            "DataLoader(dataset, batch_sampler=sampler)"
        ) from None
    if not -count <= number < count:
        raise IndexError(f"sample {number} of {count}")
    return number % count


def sliced(count: int, place: slice) -> range:
    """The numbers of the samples in a slice.

    Raises:
        UsageError: The slice goes backwards.
    """
    found = range(count)[place]
    if found.step < 0 and len(found) > 1:
        raise UsageError(
            "a slice that goes backwards: selections keep the pack's order",
            "torch.utils.data.Subset(dataset, range(…)) keeps any order",
        )
    return found


def of_classes(pack: Pack, classes: Sequence[str | int]) -> Array:
    """The mask of the samples of some classes, which are given by name or by label.

    Raises:
        UsageError: There is no such class.
    """
    known = {name: label for label, name in enumerate(pack.manifest.classes)}
    check_names("classes", classes)
    labels = []
    for entry in classes:
        if isinstance(entry, str) and entry not in known:
            raise UsageError(f"unknown class {entry!r}", suggestion(entry, known))
        label = known[entry] if isinstance(entry, str) else int(entry)
        if not -1 <= label < len(known):
            raise UsageError(f"label {label} is none of {len(known)} classes", "-1: unlabelled")
        labels.append(label)
    return np.isin(pack.index["label"], labels)


def of_fraction(pack: Pack, fraction: float | tuple[float, float], seed: int) -> Array:
    """The mask of a part of the samples, drawn at random and stratified by class.

    All samples are put into one order, in which each class is spread evenly: a stretch of length
    p·N of the order's N samples holds p·n ± 1 of a class's n samples (± 2 where few classes have
    the same size). A part is the stretch from round(low · N) up to round(high · N). So parts of one
    size differ by one sample at most, parts that do not overlap share none, and parts that make up
    1 leave none out.

    Raises:
        UsageError: The fraction does not satisfy 0 ≤ low ≤ high ≤ 1.
    """
    low, high = fraction if isinstance(fraction, tuple) else (0.0, fraction)
    if not 0 <= low <= high <= 1:
        raise UsageError(f"invalid fraction {fraction}", "0 to 1, or (low, high)")
    order = _stratified(pack, combine(seed, _FRACTION))
    mask = np.zeros(len(order), np.bool_)
    mask[order[_rounded(low, len(order)) : _rounded(high, len(order))]] = True
    return mask


def _stratified(pack: Pack, seed: int) -> Array:
    """The numbers of all samples in the order described above."""
    labels = pack.index["label"]
    # Slots give a class the same random order in a selection as in the pack; numbers would not.
    drawn = keys(seed, pack.index["slot"])
    by_class = np.lexsort((drawn, labels))
    found, first, counts = np.unique(labels[by_class], return_index=True, return_counts=True)
    place = np.arange(len(by_class)) - np.repeat(first, counts)
    begin = _begins(counts, keys(seed, found.astype(np.int64)))
    position = (place + np.repeat(begin, counts)) / np.repeat(counts, counts)
    order: Array = by_class[np.lexsort((drawn[by_class], position))]
    return order


def _begins(counts: Array, drawn: Array) -> Array:
    """Where each class begins, as a fraction of the distance between two of its samples. Classes of
    one size begin in random order at even distances, so that all their samples are spread evenly.
    """
    order = np.lexsort((drawn, counts))
    _, first, classes = np.unique(counts[order], return_index=True, return_counts=True)
    place = np.arange(len(counts)) - np.repeat(first, classes)
    begin = np.empty(len(counts))
    begin[order] = (place + 0.5) / np.repeat(classes, classes)
    return begin


def _rounded(part: float, count: int) -> int:
    return int(np.floor(part * count + 0.5))
