"""Some of a pack's samples as a pack of their own: what `PackedDataset.select` makes.

A selection numbers its samples anew, from 0, in the pack's order, and keeps the pack's on-disk
batches, with fewer samples in each. So whatever reads a pack reads a selection, too: order,
windows, samplers and messages need to know nothing of it.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from packer.arguments import check_names
from packer.errors import UsageError, suggestion
from packer.pack.columns import stored_fields
from packer.pack.index import IndexFile
from packer.pack.opened import Pack
from packer.reader.order.hashing import combine, keys
from packer.types import ABSENT, Array

#: A batch is read whole only if at least this part of its range is payload of selected samples:
#: so no more than twice of what was asked for is read.
DENSE = 0.5

# Tells this hash from those of the order.
_FRACTION = 32


class SelectedPack(Pack):
    """Some of the samples of an open pack.

    Args:
        pack: The pack, or a selection of it.
        mask: bool, one a sample of `pack`: whether it is selected.

    Attributes:
        base: As given.
        numbers: int64, the number in `base` of each selected sample, ascending.
    """

    def __init__(self, pack: Pack, mask: Array) -> None:
        self.root, self.split = pack.root, pack.split
        self.manifest, self.record = pack.manifest, pack.record
        self.base = pack
        self.numbers: Array = np.flatnonzero(mask).astype(np.int64)
        self.index = _SelectedIndex(pack, self.numbers)

    def __reduce__(self) -> tuple[object, ...]:
        # A bit a sample: the numbers themselves would be 10 MB of each worker's start for ImageNet.
        mask = np.zeros(len(self.base), np.bool_)
        mask[self.numbers] = True
        return _restore, (self.base, np.packbits(mask).tobytes())

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(bytes.fromhex(self.base.identity))
        digest.update(self.numbers.astype("<i8").data)
        return digest.hexdigest()

    @property
    def dense(self) -> Array:
        index = self.index
        payload = np.zeros(len(self), np.int64)
        for name in self.stored_fields():
            payload += np.maximum(index[f"{name}.size"], 0)
        ends = np.concatenate(([0], np.cumsum(payload)))
        first, count = index["batch_first"], index["batch_count"]
        dense: Array = ends[first + count] - ends[first] >= DENSE * index["batch_bytes"]
        return dense

    def key(self, sample: int) -> str:
        return self.base.key(int(self.numbers[sample]))


class _SelectedIndex(IndexFile):
    """The rows of the selected samples; the batches shrunk to the ranges that hold them.

    Its arrays are made at once, 40 bytes a selected sample, so that forked workers share them.
    """

    def __init__(self, pack: Pack, numbers: Array) -> None:
        base = pack.index
        self.path, self.meta, self.device = base.path, base.meta, base.device
        self._base = base
        batches = len(base["batch_count"])
        counts = np.bincount(pack.batch_of(numbers), minlength=batches).astype(np.int64)
        fields = stored_fields(pack.manifest.fields)
        columns = ["slot", "label", "width", "height"]
        columns += [f"{name}.{what}" for name in fields for what in ("offset", "size", "crc32")]
        shared = [name for name in base.names() if name.startswith("shard_")] + ["batch_shard"]
        self._arrays = {name: base[name][numbers] for name in columns}
        self._arrays |= {name: base[name] for name in shared}
        self._arrays |= {"batch_count": counts, "batch_first": np.cumsum(counts) - counts}
        self._arrays |= self._spans(counts, fields)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def names(self) -> list[str]:
        return list(self._arrays)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def confirm(self) -> None:
        self._base.confirm()

    def has_faults(self) -> bool:
        return self._base.has_faults()

    def _spans(self, counts: Array, fields: Sequence[str]) -> dict[str, Array]:
        """batch_offset and batch_bytes: from the first to the last byte of a selected sample."""
        filled = np.flatnonzero(counts)
        offset, size = np.zeros((2, len(counts)), np.int64)
        if not len(filled):
            return {"batch_offset": offset, "batch_bytes": size}
        start = np.full(len(self["slot"]), np.iinfo(np.int64).max)
        stop = np.zeros(len(self["slot"]), np.int64)
        for name in fields:
            first, length = self[f"{name}.offset"], self[f"{name}.size"]
            there = first != ABSENT
            start[there] = np.minimum(start, first)[there]
            stop[there] = np.maximum(stop, first + length)[there]
        edges = self["batch_first"][filled]
        begin, end = np.minimum.reduceat(start, edges), np.maximum.reduceat(stop, edges)
        offset[filled] = np.where(end > 0, begin, 0)  # no selected sample has any payload: nothing
        size[filled] = np.where(end > 0, end - begin, 0)
        return {"batch_offset": offset, "batch_bytes": size}


def _restore(pack: Pack, packed: bytes) -> SelectedPack:
    bits = np.frombuffer(packed, np.uint8)
    return SelectedPack(pack, np.unpackbits(bits, count=len(pack)).astype(np.bool_))


def listed(pack: Pack, samples: Array | Sequence[int]) -> Array:
    """The mask of samples given by their numbers, or by a mask.

    Raises:
        UsageError: A number that is none, or is there twice; a mask of another length.
    """
    given = np.asarray(samples)
    if given.dtype == np.bool_:
        if given.shape != (len(pack),):
            raise UsageError(f"samples: {given.shape} is no mask of {len(pack)} samples")
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
            "a sampler, as WeightedRandomSampler, repeats samples",
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
        UsageError: It goes backwards.
    """
    found = range(count)[place]
    if found.step < 0 and len(found) > 1:
        raise UsageError(
            "a slice that goes backwards: selections keep the pack's order",
            "torch.utils.data.Subset(dataset, range(…)) keeps any order",
        )
    return found


def of_classes(pack: Pack, classes: Sequence[str | int]) -> Array:
    """The mask of samples of some classes, named or by label.

    Raises:
        UsageError: No such class.
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

    All samples are put into one order, in which each class is spread evenly: of n samples of a
    class, any stretch of a part p of the order has p·n, give or take one (two where few classes are
    of one size). A part is a stretch from round(low · N) up to round(high · N) of all N samples. So
    parts of one size differ by one sample at most, those that do not overlap share none, and those
    that make up 1 leave none out.

    Raises:
        UsageError: Not 0 ≤ low ≤ high ≤ 1.
    """
    low, high = fraction if isinstance(fraction, tuple) else (0.0, fraction)
    if not 0 <= low <= high <= 1:
        raise UsageError(f"fraction {fraction} cannot be", "0 to 1, or (low, high)")
    order = _stratified(pack, combine(seed, _FRACTION))
    mask = np.zeros(len(order), np.bool_)
    mask[order[_rounded(low, len(order)) : _rounded(high, len(order))]] = True
    return mask


def _stratified(pack: Pack, seed: int) -> Array:
    """The numbers of all samples in the order described above."""
    labels = pack.index["label"]
    # By slot, so that a class has the same random order in a selection as in the pack.
    drawn = keys(seed, pack.index["slot"])
    by_class = np.lexsort((drawn, labels))
    found, first, counts = np.unique(labels[by_class], return_index=True, return_counts=True)
    place = np.arange(len(by_class)) - np.repeat(first, counts)
    begin = _begins(counts, keys(seed, found.astype(np.int64)))
    position = (place + np.repeat(begin, counts)) / np.repeat(counts, counts)
    order: Array = by_class[np.lexsort((drawn[by_class], position))]
    return order


def _begins(counts: Array, drawn: Array) -> Array:
    """Where each class begins, in parts of the distance between two of its samples: classes of one
    size in random order, evenly spread, so that their samples together are so, too.
    """
    order = np.lexsort((drawn, counts))
    _, first, classes = np.unique(counts[order], return_index=True, return_counts=True)
    place = np.arange(len(counts)) - np.repeat(first, classes)
    begin = np.empty(len(counts))
    begin[order] = (place + 0.5) / np.repeat(classes, classes)
    return begin


def _rounded(part: float, count: int) -> int:
    return int(np.floor(part * count + 0.5))
