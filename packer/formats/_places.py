"""Offsets and sizes of a shard's payloads, collected batch by batch into a `ShardLayout`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from packer.pack.columns import SampleRows, stored_fields
from packer.types import ABSENT, Array, Field, Payload, Sample, ShardLayout

_NOWHERE = (ABSENT, ABSENT)


class PayloadPlaces:
    """Collects the offset of each payload within its batch, and the size of each batch.

    Args:
        fields: Fields of every sample; fields of kind label have no payload.

    Attributes:
        offset: By field name, per sample: offset from the start of its batch in bytes; ABSENT if
            the sample lacks the field.
        size: By field name, per sample: size in bytes; ABSENT if the sample lacks the field.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        names = stored_fields(fields)
        self.offset: dict[str, list[int]] = {name: [] for name in names}
        self.size: dict[str, list[int]] = {name: [] for name in names}
        self._counts: list[int] = []
        self._bytes: list[int] = []

    def add_sample(self, places: Mapping[str, tuple[int, int]]) -> None:
        """Add one sample: (offset in its batch, size) by field name."""
        for name, offsets in self.offset.items():
            offset, size = places.get(name, _NOWHERE)
            offsets.append(offset)
            self.size[name].append(size)

    def end_batch(self, samples: int, nbytes: int) -> None:
        """End a batch: the last `samples` samples, in `nbytes` bytes."""
        self._counts.append(samples)
        self._bytes.append(nbytes)

    def layout(self, batch_offset: Iterable[int]) -> ShardLayout:
        """Return the layout.

        Args:
            batch_offset: Offset of each batch in the file; that of an empty batch becomes 0.
        """
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
    """Places of batches that are the concatenated payloads of their samples: LMDB and HDF5.

    A sample's payloads follow each other in the order of the fields. `columns` and `description`
    are for shards that their library can read without packer.

    Args:
        fields: Fields of every sample.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__(fields)
        self._fields = fields
        self._rows = SampleRows()

    def add_batch(self, samples: Sequence[Sample]) -> bytes:
        """Add one batch and return its bytes."""
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
        """Columns of the index that the shard itself stores: labels, sizes, paths, and offset (from
        the start of the batch) and size of each payload.
        """
        arrays = self._rows.row_arrays()
        for name in self.offset:
            arrays[f"{name}.offset"] = np.array(self.offset[name], "<i8")
            arrays[f"{name}.size"] = np.array(self.size[name], "<i8")
        return arrays

    def description(self, name: str) -> dict[str, Any]:
        """Format, version and fields of the shard, as JSON values."""
        fields = [asdict(entry) for entry in self._fields]
        return {"format": name, "version": 1, "fields": fields}


def batch_bytes(samples: Sequence[Sample], fields: Sequence[Field]) -> int:
    """Return the size of a batch of concatenated payloads in bytes."""
    names = stored_fields(fields)
    return sum(len(sample.payloads.get(name, b"")) for sample in samples for name in names)


def _absolute(base: Array, inside: Sequence[int]) -> Array:
    offsets = np.array(inside, np.int64)
    return np.where(offsets == ABSENT, ABSENT, base + offsets)
