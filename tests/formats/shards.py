"""Shards to test with, and each format read by its own library alone."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from packer import testing
from packer.types import Field, Sample


@dataclass(frozen=True)
class Shard(testing.Shard):
    """A finished shard, which its format's own library can read."""

    def alone(self) -> list[testing.Stored]:
        """All samples as the format's own library gives them, without the index."""
        if self.format not in _ALONE:
            pytest.skip(f"tests/formats/shards.py has no reader for {self.format}")
        return list(_ALONE[self.format](self))


class BuildShard(Protocol):
    """Writes one shard."""

    def __call__(
        self,
        format_name: str,
        fields: Sequence[Field],
        batches: Sequence[Sequence[Sample]],
        one_size: bool = False,
        folder: Path = ...,
        name: str = "shard",
    ) -> Shard: ...


class ImageFields(Protocol):
    """Makes the fields of a pack: image, label and others."""

    def __call__(self, codec: str | None, *more: Field) -> tuple[Field, ...]: ...


class MakeBatches(Protocol):
    """Makes batches of so many samples."""

    def __call__(
        self,
        counts: Sequence[int],
        size: tuple[int, int] = (4, 3),
        classes: int = 300,
        seed: int = 0,
    ) -> list[list[Sample]]: ...


def read_alone(shard: testing.Shard) -> list[testing.Stored] | None:
    """All samples as the format's own library gives them; None if there is no reader below."""
    return Shard(**vars(shard)).alone() if shard.format in _ALONE else None


def _tar_alone(shard: Shard) -> Iterator[testing.Stored]:
    by_extension = {entry.extension: entry for entry in shard.fields}
    grouped: dict[int, dict[str, bytes]] = {}
    with tarfile.open(shard.path, format=tarfile.USTAR_FORMAT) as archive:
        for member in archive:
            key, _, extension = member.name.partition(".")
            if int(key) in grouped:
                assert list(grouped)[-1] == int(key), "members of a sample are not adjacent"
            file = archive.extractfile(member)
            assert file is not None
            grouped.setdefault(int(key), {})[extension] = file.read()
    for slot, members in grouped.items():
        label = int(members.pop("cls", b"-1"))
        payloads = {}
        for extension, data in members.items():
            entry = by_extension[extension]
            is_array = entry.codec == "raw"
            payloads[entry.name] = np.load(io.BytesIO(data)).tobytes() if is_array else data
        yield slot, label, payloads


def _cut(
    shard: Shard, columns: dict[str, Any], batches: Iterator[bytes]
) -> Iterator[testing.Stored]:
    names = [entry.name for entry in shard.fields if entry.kind != "label"]
    ends = columns["path_offset"]
    for sample, given in enumerate(shard.samples):
        stored = columns["path_bytes"][ends[sample] : ends[sample + 1]].tobytes()
        assert stored == given.path
    for first, count in zip(columns["batch_first"], columns["batch_count"], strict=True):
        value = next(batches)
        for sample in range(first, first + count):
            payloads = {}
            for name in names:
                offset, size = columns[f"{name}.offset"][sample], columns[f"{name}.size"][sample]
                if offset >= 0:
                    payloads[name] = value[offset : offset + size]
            yield int(columns["slot"][sample]), int(columns["label"][sample]), payloads


def _lmdb_alone(shard: Shard) -> Iterator[testing.Stored]:
    import lmdb

    with (
        lmdb.open(str(shard.path), subdir=False, readonly=True, lock=False) as env,
        env.begin() as transaction,
    ):
        everything = dict(transaction.cursor())
    meta = json.loads(everything.pop(b"meta"))
    assert (meta["format"], meta["version"]) == ("packer-lmdb", 1)
    columns = {
        key.removeprefix(b"column/").decode(): np.load(io.BytesIO(value))
        for key, value in everything.items()
        if key.startswith(b"column/")
    }
    batches = [value for key, value in everything.items() if key.startswith(b"batch/")]
    assert len(batches) == meta["batches"]
    yield from _cut(shard, columns, iter(batches))


def _hdf5_alone(shard: Shard) -> Iterator[testing.Stored]:
    import h5py

    with h5py.File(shard.path, "r") as file:
        assert (file.attrs["format"], file.attrs["version"]) == (b"packer-hdf5", 1)
        assert len(json.loads(file.attrs["fields"])) == len(shard.fields)
        columns = {name: dataset[:] for name, dataset in file["columns"].items()}
        names = [f"batches/{batch:06d}" for batch in range(len(file["batches"]))]
        yield from _cut(shard, columns, (file[name][:].tobytes() for name in names))


_ALONE: dict[str, Callable[[Shard], Iterator[testing.Stored]]] = {
    "tar": _tar_alone,
    "lmdb": _lmdb_alone,
    "hdf5": _hdf5_alone,
}
