"""Some of a pack's samples as a pack of their own: what `PackedDataset.select` makes.

A selection numbers its samples from 0, in the pack's order, and keeps the pack's on-disk batches,
with fewer samples in each. So order, windows, samplers and messages work on a selection as they do
on a pack.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from packer.pack.columns import stored_fields
from packer.pack.index import IndexFile
from packer.pack.opened import Pack
from packer.types import ABSENT, Array


class SelectedPack(Pack):
    """Some of the samples of an open pack.

    Args:
        pack: The pack, or a selection of it.
        mask: bool, one for each sample of `pack`: whether it is selected.

    Attributes:
        base: The pack that was given.
        numbers: int64, the number in `base` of each selected sample, ascending.
    """

    def __init__(self, pack: Pack, mask: Array) -> None:
        self.root, self.split = pack.root, pack.split
        self.manifest, self.record = pack.manifest, pack.record
        self.base = pack
        self.numbers: Array = np.flatnonzero(mask).astype(np.int64)
        self.index = _SelectedIndex(pack, self.numbers)

    def __reduce__(self) -> tuple[object, ...]:
        # One bit for each sample: for ImageNet, the numbers would add 10 MB to each worker's start.
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

    def key(self, sample: int) -> str:
        return self.base.key(int(self.numbers[sample]))


class _SelectedIndex(IndexFile):
    """The index rows of the selected samples, and their batches, cut down to what they hold.

    Its arrays are made at once, 40 bytes for each selected sample, so that forked workers share
    them.
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
        offset[filled] = np.where(end > 0, begin, 0)  # else no payload is selected
        size[filled] = np.where(end > 0, end - begin, 0)
        return {"batch_offset": offset, "batch_bytes": size}


def _restore(pack: Pack, packed: bytes) -> SelectedPack:
    bits = np.frombuffer(packed, np.uint8)
    return SelectedPack(pack, np.unpackbits(bits, count=len(pack)).astype(np.bool_))
