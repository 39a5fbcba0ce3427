"""Check the values of an index, whoever wrote it: types and lengths of the columns, sums of counts,
payloads inside their batches, batches inside their shards, labels that are classes.

Code behind these checks needs no further ones. The columns of slots and paths, which training never
reads, are checked where they are used (`packer.pack.columns.read_path`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from packer.errors import DamageError
from packer.imaging.heads.probe import PIXEL_LIMIT, PIXELS_PER_BYTE
from packer.pack.columns import ShardRecord, index_name, stored_fields
from packer.pack.index import IndexFile
from packer.pack.manifest import Manifest
from packer.types import ABSENT, NO_LABEL, Array, Field
from packer.wording import count

#: Batches whose samples are checked at a time: with 128 samples each, this takes 30 MB.
_BLOCK = 4096
#: Number of bits in the column of notes.
_MOST_NOTES = 32
#: dtype and shape of a column; None: any length.
_Forms: TypeAlias = Mapping[str, tuple[str, tuple[int | None, ...]]]


def open_split_index(folder: Path, manifest: Manifest, split: str) -> IndexFile:
    """Open the index of a split and check it against the manifest.

    Args:
        folder: The pack.
        manifest: Its manifest.
        split: Name of the split.

    Raises:
        DamageError: It is missing, belongs to another pack, or holds an invalid value.
    """
    record = manifest.splits[split]
    index = IndexFile(folder / record.index)
    shards = record.shards
    names = {"pack": manifest.identity, "split": split, "shards": [shard.name for shard in shards]}
    same = all(index.meta.get(key) == value for key, value in names.items())
    if same:
        _check_columns(index, {**_table_forms(len(shards)), **_forms(manifest.fields, shards)})
    if not same or not _tables_agree(index, shards):
        raise DamageError(
            f"{index.path}: does not describe the shards that the manifest lists; "
            "it was swapped, or its pack was made anew"
        )
    _check_values(index, manifest.fields, shards, len(manifest.classes))
    _check_batch_shards(index, shards)
    return index


def open_shard_index(
    folder: Path, shard: ShardRecord, fields: Sequence[Field], classes: int | None = None
) -> IndexFile:
    """Open the index of one shard and check it against the shard's record.

    Args:
        folder: The pack.
        shard: The shard.
        fields: The pack's fields.
        classes: Number of the pack's classes; None if unknown.

    Raises:
        DamageError: It is missing, belongs to another shard, or holds an invalid value.
    """
    index = IndexFile(folder / index_name(shard.name))
    names = {
        "shard": shard.name,
        "bytes": shard.size,
        "sha256": shard.sha256,
        "fingerprint": list(shard.fingerprint),
    }
    if any(index.meta.get(key) != value for key, value in names.items()):
        raise DamageError(f"{index.path}: is the index of another shard than {shard.name}")
    _check_columns(index, _forms(fields, [shard]))
    _check_values(index, fields, [shard], classes)
    return index


def _forms(fields: Sequence[Field], shards: Sequence[ShardRecord]) -> _Forms:
    """Return the columns of every index."""
    batches = sum(shard.batches for shard in shards)
    samples = sum(shard.samples for shard in shards)
    forms: dict[str, tuple[str, tuple[int | None, ...]]] = {
        "batch_offset": ("<i8", (batches,)),
        "batch_bytes": ("<i8", (batches,)),
        "batch_first": ("<i8", (batches,)),
        "batch_count": ("<i4", (batches,)),
        "slot": ("<i8", (samples,)),
        "label": ("<i4", (samples,)),
        "width": ("<i4", (samples,)),
        "height": ("<i4", (samples,)),
        "path_offset": ("<i8", (samples + 1,)),
        "path_bytes": ("|u1", (None,)),
    }
    for name in stored_fields(fields):
        forms[f"{name}.offset"] = forms[f"{name}.size"] = ("<i8", (samples,))
        forms[f"{name}.crc32"] = ("<u4", (samples,))
    return forms


def _table_forms(shards: int) -> _Forms:
    """The columns that only a split's index has, but for `batch_shard`, whose length is that of
    other columns.
    """
    return {
        "shard_bytes": ("<i8", (shards,)),
        "shard_sha256": ("|u1", (shards, 32)),
        "shard_fingerprint": ("<u4", (shards, 2)),
        "shard_batches": ("<i8", (shards,)),
        "shard_samples": ("<i8", (shards,)),
    }


def _check_columns(index: IndexFile, forms: _Forms) -> None:
    """Check types and lengths in the header; no array is read."""
    for name, (dtype, shape) in forms.items():
        _check_column(index, name, dtype, shape)
    if "notes" in index:  # packs of earlier versions have none
        _check_column(index, "notes", "<u4", forms["slot"][1])
        notes: Any = index.meta.get("notes")
        right = isinstance(notes, list) and len(notes) <= _MOST_NOTES
        if not right or not all(isinstance(note, str) for note in notes):
            raise _invalid(index, "its list of notes is invalid")


def _check_column(index: IndexFile, name: str, dtype: str, shape: tuple[int | None, ...]) -> None:
    if name not in index:
        raise _invalid(index, f"has no array {name!r}")
    found_dtype, found = index.form(name)
    lengths = len(found) == len(shape) and all(
        length in (None, there) for length, there in zip(shape, found, strict=True)
    )
    if found_dtype != dtype or not lengths:
        raise _invalid(index, f"array {name!r} is {found_dtype} {list(found)}")


def _tables_agree(index: IndexFile, shards: Sequence[ShardRecord]) -> bool:
    tables = (
        ("shard_bytes", [shard.size for shard in shards]),
        ("shard_fingerprint", [list(shard.fingerprint) for shard in shards]),
        ("shard_batches", [shard.batches for shard in shards]),
        ("shard_samples", [shard.samples for shard in shards]),
    )
    digests = b"".join(bytes.fromhex(shard.sha256) for shard in shards)
    return index["shard_sha256"].tobytes() == digests and all(
        index[name].tolist() == expected for name, expected in tables
    )


def _check_batch_shards(index: IndexFile, shards: Sequence[ShardRecord]) -> None:
    batches = [shard.batches for shard in shards]
    _check_column(index, "batch_shard", "<i4", (sum(batches),))
    if not np.array_equal(index["batch_shard"], np.repeat(np.arange(len(shards)), batches)):
        raise _invalid(index, "a batch has another shard than the table of shards says")


def _check_values(
    index: IndexFile, fields: Sequence[Field], shards: Sequence[ShardRecord], classes: int | None
) -> None:
    ends = _check_batches(index, shards)
    labels = index["label"]
    wrong = (labels < NO_LABEL) | (labels >= (np.inf if classes is None else classes))
    if wrong.any():
        label = labels[int(wrong.argmax())]
        raise _invalid(index, f"label {label} is none of {count(classes or 0, 'class')}")
    for first in range(0, len(ends) - 1, _BLOCK):
        batches = slice(first, first + _BLOCK)
        samples = slice(int(ends[first]), int(ends[min(first + _BLOCK, len(ends) - 1)]))
        _check_samples(index, fields, batches, samples)


def _check_batches(index: IndexFile, shards: Sequence[ShardRecord]) -> Array:
    """Return int64: the number of samples before each batch, and of all."""
    count, offset, size = (index[f"batch_{name}"] for name in ("count", "offset", "bytes"))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(count, dtype=np.int64)])
    edges = np.concatenate([[0], np.cumsum([shard.batches for shard in shards], dtype=np.int64)])
    samples = np.diff(ends[edges.astype(np.int64)]).tolist()
    if (
        (count < 0).any()
        or not np.array_equal(index["batch_first"], ends[:-1])
        or samples != [shard.samples for shard in shards]
    ):
        raise _invalid(index, "the batches do not have the samples that the shards have")
    shard_bytes = np.array([shard.size for shard in shards], np.int64)
    room = np.repeat(shard_bytes, [shard.batches for shard in shards])
    # Subtracted, as a sum may exceed what 64 bits hold.
    wrong = (offset < 0) | (size < 0) | (size > room) | (offset > room - size)
    if wrong.any():
        raise _invalid(index, f"batch {int(wrong.argmax())} lies outside of its shard")
    return ends


def _check_samples(
    index: IndexFile, fields: Sequence[Field], batches: slice, samples: slice
) -> None:
    counts = index["batch_count"][batches]
    start = np.repeat(index["batch_offset"][batches], counts)
    stop = start + np.repeat(index["batch_bytes"][batches], counts)
    for field in fields:
        if field.kind == "label":
            continue
        offset, size = (index[f"{field.name}.{what}"][samples] for what in ("offset", "size"))
        is_there = offset != ABSENT
        inside = (offset >= start) & (offset <= stop) & (size >= 0) & (size <= stop - offset)
        right = np.where(is_there, inside, size == ABSENT)
        what = f"field {field.name!r} lies outside of its batch"
        if right.all() and field.kind == "image":
            what = "no picture of its size has so few bytes, or it is larger than packer stores"
            right = _sizes_are_right(index, samples, str(field.codec), size)
        if not right.all():
            raise _invalid(index, f"sample {samples.start + int(right.argmin())}: {what}")


def _sizes_are_right(index: IndexFile, samples: slice, codec: str, size: Array) -> Array:
    """Return bool, one per sample: whether a payload can hold a picture of its width and height."""
    width, height = (index[name][samples].astype(np.int64) for name in ("width", "height"))
    pixels = width * height
    positive = (width > 0) & (height > 0) & (pixels <= PIXEL_LIMIT)
    # A payload of a few bytes is damage of one sample, which readers report.
    held = pixels <= np.maximum(size, 1) * PIXELS_PER_BYTE.get(codec, PIXEL_LIMIT)
    right: Array = np.where(size == ABSENT, (width >= 0) & (height >= 0), positive & held)
    return right


def _invalid(index: IndexFile, what: str) -> DamageError:
    return DamageError(f"{index.path}: {what}")
