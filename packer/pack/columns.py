"""Build the columns of a batch index: those of one shard, and of all shards of a split.

Columns of both, F standing for each field that is kept as bytes:

    batch_offset i8  batch_bytes i8  batch_first i8  batch_count i4          one row a batch
    slot i8  label i4  width i4  height i4  notes u4                         one row a sample
    F.offset i8  F.size i8  F.crc32 u4     (offset and size -1 = absent)    one row a sample
    path_offset i8 (samples + 1 rows)  path_bytes u1                        paths, end to end

A split's index has these as well, as offsets are within a shard:

    batch_shard i4                                                          one row a batch
    shard_bytes i8  shard_sha256 u1[32]  shard_fingerprint u4[2]
    shard_batches i8  shard_samples i8                                      one row a shard
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from packer.errors import DamageError, UsageError
from packer.notes import NOTES
from packer.pack.index import EXTENSION, IndexFile, encode_index
from packer.types import Array, Field, Sample, ShardLayout

#: A shard's fingerprint is the CRC-32 of its first and of its last bytes, this many of each.
#: 8 KiB hold LMDB's two meta pages, which change when a file is compacted.
FINGERPRINT_BYTES = 8192
#: A split's name may have dots, so a shard's name is recognised by its number.
_SHARD_NAME = re.compile(r"(.+-\d{6,})\.[a-z0-9]+", re.DOTALL)

_CONCATENATED = ("batch_offset", "batch_bytes", "batch_count", "slot", "label", "width", "height")


@dataclass(frozen=True)
class ShardRecord:
    """A finished shard as a file.

    Attributes:
        name: File name, `<split>-000000.<extension>`.
        size: Size in bytes.
        sha256: Hex digest of the whole file.
        fingerprint: CRC-32 of its first and of its last FINGERPRINT_BYTES.
        samples: Number of samples in it.
        batches: Number of batches in it, including empty ones.
    """

    name: str
    size: int
    sha256: str
    fingerprint: tuple[int, int]
    samples: int
    batches: int


class SampleRows:
    """Collects each sample's columns except for its payloads, batch by batch.

    Attributes:
        counts: Number of samples in each batch so far, including empty batches.
        rows: (slot, label, width, height) of each sample so far.
        paths: Path of each sample so far.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.rows: list[tuple[int, int, int, int]] = []
        self.paths: list[bytes] = []

    def add_rows(self, samples: Sequence[Sample]) -> None:
        """Add the rows of one batch."""
        self.counts.append(len(samples))
        for sample in samples:
            self.rows.append((sample.slot, sample.label, sample.width, sample.height))
            self.paths.append(sample.path)

    def row_arrays(self) -> dict[str, Array]:
        """Return batch_first, batch_count, slot, label, width, height, path_offset and
        path_bytes.
        """
        counts = np.array(self.counts, "<i4")
        table = np.array(self.rows, "<i8").reshape(-1, 4)
        return {
            "batch_first": _first_samples(counts),
            "batch_count": counts,
            "slot": table[:, 0],
            "label": table[:, 1].astype("<i4"),
            "width": table[:, 2].astype("<i4"),
            "height": table[:, 3].astype("<i4"),
            **_path_columns(self.paths),
        }


class ShardColumns(SampleRows):
    """Collects the columns of a shard while its batches are written.

    Args:
        fields: The pack's fields.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__()
        self._checksums: dict[str, list[int]] = {name: [] for name in stored_fields(fields)}
        self._notes: list[int] = []

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Add the index's columns of one batch's samples."""
        self.add_rows(samples)
        self._notes += [sample.notes for sample in samples]
        for name, checksums in self._checksums.items():
            for sample in samples:
                payload = sample.payloads.get(name)
                checksums.append(0 if payload is None else zlib.crc32(payload))

    def arrays(self, layout: ShardLayout) -> dict[str, Array]:
        """Return all columns, with the offsets and sizes that the shard's writer reports."""
        arrays: dict[str, Array] = {
            "batch_offset": layout.batch_offset.astype("<i8"),
            "batch_bytes": layout.batch_bytes.astype("<i8"),
        }
        arrays |= self.row_arrays()
        for name, checksums in self._checksums.items():
            arrays[f"{name}.offset"] = layout.field_offset[name].astype("<i8")
            arrays[f"{name}.size"] = layout.field_size[name].astype("<i8")
            arrays[f"{name}.crc32"] = np.array(checksums, "<u4")
        arrays["notes"] = np.array(self._notes, "<u4")
        return arrays


def encode_shard_index(arrays: Mapping[str, Array], record: ShardRecord) -> bytes:
    """Return the bytes of one shard's index file."""
    return encode_index(
        arrays,
        {
            "kind": "shard",
            "shard": record.name,
            "bytes": record.size,
            "sha256": record.sha256,
            "fingerprint": list(record.fingerprint),
            "notes": list(NOTES),
        },
    )


def encode_split_index(
    split: str,
    fields: Sequence[Field],
    records: Sequence[ShardRecord],
    indexes: Sequence[IndexFile],
    identity: str,
) -> bytes:
    """Return the bytes of a split's index file: the columns of all its shards, end to end.

    Args:
        split: Name of the split.
        fields: The pack's fields.
        records: The split's shards in order; may be none.
        indexes: Their index files, in the same order.
        identity: Identity of the pack, as in its manifest.
    """
    names = list(_CONCATENATED)
    for name in stored_fields(fields):
        names += [f"{name}.offset", f"{name}.size", f"{name}.crc32"]
    meta: dict[str, Any] = {
        "kind": "split",
        "split": split,
        "pack": identity,
        "shards": [record.name for record in records],
    }
    noted = [index.meta.get("notes") for index in indexes if "notes" in index]
    if len(noted) == len(indexes) and all(known == noted[0] for known in noted):
        names.append("notes")  # otherwise an earlier version of packer made some of them
        meta["notes"] = noted[0] if noted else list(NOTES)
    empty = ShardColumns(fields).arrays(_empty_layout(fields))
    arrays = {name: _concatenate([empty[name], *(i[name] for i in indexes)]) for name in names}
    counts = arrays["batch_count"]
    arrays["batch_first"] = _first_samples(counts)
    batches = np.array([record.batches for record in records], "<i8")
    arrays["batch_shard"] = np.repeat(np.arange(len(records), dtype="<i4"), batches)
    arrays["shard_bytes"] = np.array([record.size for record in records], "<i8")
    digests = b"".join(bytes.fromhex(record.sha256) for record in records)
    arrays["shard_sha256"] = np.frombuffer(digests, "u1").reshape(-1, 32)
    prints = [record.fingerprint for record in records]
    arrays["shard_fingerprint"] = np.array(prints, "<u4").reshape(-1, 2)
    arrays["shard_batches"] = batches
    arrays["shard_samples"] = np.array([record.samples for record in records], "<i8")
    lengths = [empty["path_offset"], *(i["path_offset"] for i in indexes)]
    arrays["path_offset"] = _join_offsets(lengths)
    arrays["path_bytes"] = _concatenate([empty["path_bytes"], *(i["path_bytes"] for i in indexes)])
    return encode_index(arrays, meta)


def cut_shard(index: IndexFile, shard: int, fields: Sequence[Field]) -> dict[str, Array]:
    """Return the columns of one shard, taken from its split's index: those of the shard's own
    index.

    Args:
        index: The split's index.
        shard: Number of the shard in it, from 0.
        fields: The pack's fields.
    """
    batches = _range(index["shard_batches"], shard)
    samples = _range(index["shard_samples"], shard)
    counts = index["batch_count"][batches]
    columns = {name: index[name][batches] for name in ("batch_offset", "batch_bytes")}
    columns |= {"batch_first": _first_samples(counts), "batch_count": counts}
    columns |= {name: index[name][samples] for name in ("slot", "label", "width", "height")}
    ends = index["path_offset"][samples.start : samples.stop + 1]
    columns["path_offset"] = ends - ends[0]
    columns["path_bytes"] = index["path_bytes"][ends[0] : ends[-1]]
    for name in stored_fields(fields):
        for part in ("offset", "size", "crc32"):
            columns[f"{name}.{part}"] = index[f"{name}.{part}"][samples]
    if "notes" in index:
        columns["notes"] = index["notes"][samples]
    return columns


def stored_fields(fields: Iterable[Field]) -> list[str]:
    """Return the names of the fields that are kept as bytes (labels are a column of their own)."""
    return [entry.name for entry in fields if entry.kind != "label"]


def fingerprint(descriptor: int, size: int) -> tuple[int, int]:
    """Return the CRC-32 of the first and of the last FINGERPRINT_BYTES of an open file."""
    length = min(size, FINGERPRINT_BYTES)
    return (
        zlib.crc32(os.pread(descriptor, length, 0)),
        zlib.crc32(os.pread(descriptor, length, size - length)),
    )


def read_path(index: IndexFile, sample: int) -> bytes:
    """Return the path of one sample; load the path columns on first use.

    Raises:
        DamageError: The index says that it lies outside of all paths.
    """
    start, end = index["path_offset"][sample : sample + 2]
    paths = index["path_bytes"]
    if not 0 <= start <= end <= len(paths):
        raise DamageError(f"{index.path}: the path of sample {sample} lies outside")
    return paths[start:end].tobytes()


def noted_samples(index: IndexFile, notes: Iterable[str]) -> Array:
    """Return the numbers of the samples that have at least one of these notes, ascending.

    Raises:
        UsageError: The index was made by an earlier version of packer, which kept no notes.
    """
    if "notes" not in index:
        raise UsageError(
            f"{index.path}: does not say which pictures have notes: an earlier packer made it",
            "packer info counts them; packer convert makes a pack that lists them",
        )
    known = list(index.meta.get("notes", ()))
    mask = sum(1 << known.index(note) for note in set(notes) if note in known)
    return np.flatnonzero(index["notes"] & np.uint32(mask))


def index_name(name: str) -> str:
    """Return the file name of the index of a shard (by its file name) or of a split (by its
    name).
    """
    shard = _SHARD_NAME.fullmatch(name)
    return f"{shard[1] if shard else name}.{EXTENSION}"


def _range(counts: Array, part: int) -> slice:
    end = int(counts[: part + 1].sum())
    return slice(end - int(counts[part]), end)


def _first_samples(counts: Array) -> Array:
    """Return the number of each batch's first sample."""
    return (np.cumsum(counts, dtype="<i8") - counts).astype("<i8")


def _path_columns(paths: Sequence[bytes]) -> dict[str, Array]:
    offsets = np.zeros(len(paths) + 1, "<i8")
    np.cumsum([len(path) for path in paths], out=offsets[1:])
    return {"path_offset": offsets, "path_bytes": np.frombuffer(b"".join(paths), "u1")}


def _join_offsets(parts: Sequence[Array]) -> Array:
    """Return the offsets of end-to-end byte runs, each part starting at 0."""
    sizes = _concatenate([np.diff(part) for part in parts])
    offsets = np.zeros(len(sizes) + 1, "<i8")
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _concatenate(parts: Sequence[Array]) -> Array:
    return np.concatenate(parts)


def _empty_layout(fields: Sequence[Field]) -> ShardLayout:
    none = np.zeros(0, "<i8")
    by_field = dict.fromkeys(stored_fields(fields), none)
    return ShardLayout(none, none, by_field, by_field)
