"""Where a shard's payloads lie: collected batch by batch, reported as a `ShardLayout`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from packer.pack.columns import SampleRows, stored_fields
from packer.types import ABSENT, Array, Field, Payload, Sample, ShardLayout

_NOWHERE = (ABSENT, ABSENT)


class PayloadPlaces:
    """Collects each payload's place within its batch, and each batch's place in the file.

    Args:
        fields: Fields of every sample; those of kind label have no place.

    Attributes:
        offset: By field name, one a sample: offset from the start of its batch, ABSENT where the
            sample lacks the field.
        size: By field name, one a sample: size in bytes, ABSENT likewise.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        names = stored_fields(fields)
        self.offset: dict[str, list[int]] = {name: [] for name in names}
        self.size: dict[str, list[int]] = {name: [] for name in names}
        self._counts: list[int] = []
        self._bytes: list[int] = []

    def add_sample(self, places: Mapping[str, tuple[int, int]]) -> None:
        """Take over one sample's (offset in its batch, size) by field name."""
        for name, offsets in self.offset.items():
            offset, size = places.get(name, _NOWHERE)
            offsets.append(offset)
            self.size[name].append(size)

    def end_batch(self, samples: int, nbytes: int) -> None:
        """The last `samples` samples are a batch of `nbytes` bytes."""
        self._counts.append(samples)
        self._bytes.append(nbytes)

    def layout(self, batch_offset: Iterable[int]) -> ShardLayout:
        """The layout, given each batch's absolute offset; that of an empty batch becomes 0."""
        sizes = np.array(self._bytes, np.int64)
        starts = np.fromiter(batch_offset, np.int64, len(sizes)) * (sizes > 0)
        base = np.repeat(starts, np.array(self._counts, np.int64))
        return ShardLayout(
            batch_offset=starts,
            batch_bytes=sizes,
            field_offset={name: _absolute(base, inside) for name, inside in self.offset.items()},
            field_size={name: np.array(size, np.int64) for name, size in self.size.items()},
        )


class EndToEnd(PayloadPlaces):
    """Batches that are their samples' payloads end to end, fields in order: LMDB and HDF5.

    Such a shard also carries its own columns, so that its library alone can read it.

    Args:
        fields: Fields of every sample.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__(fields)
        self._fields = fields
        self._rows = SampleRows()

    def add_batch(self, samples: Sequence[Sample]) -> bytes:
        """Take over one batch and return its bytes."""
        parts: list[Payload] = []
        end = 0
        for sample in samples:
            places = {}
            for name in self.offset:
                payload = sample.payloads.get(name)
                if payload is not None:
                    places[name] = end, len(payload)
                    parts.append(payload)
                    end += len(payload)
            self.add_sample(places)
        self._rows.add_rows(samples)
        self.end_batch(len(samples), end)
        return b"".join(parts)

    def columns(self) -> dict[str, Array]:
        """What the shard carries of the index: rows and paths, and each payload's offset (from the
        start of its batch) and size.
        """
        arrays = self._rows.row_arrays()
        for name in self.offset:
            arrays[f"{name}.offset"] = np.array(self.offset[name], "<i8")
            arrays[f"{name}.size"] = np.array(self.size[name], "<i8")
        return arrays

    def description(self, name: str) -> dict[str, Any]:
        """What the shard says of itself, as JSON values: its format, version and fields."""
        fields = [asdict(entry) for entry in self._fields]
        return {"format": name, "version": 1, "fields": fields}


def batch_bytes(samples: Sequence[Sample], fields: Sequence[Field]) -> int:
    """Bytes of a batch whose payloads lie end to end."""
    names = stored_fields(fields)
    return sum(len(sample.payloads.get(name, b"")) for sample in samples for name in names)


def _absolute(base: Array, inside: Sequence[int]) -> Array:
    offsets = np.array(inside, np.int64)
    return np.where(offsets == ABSENT, ABSENT, base + offsets)
