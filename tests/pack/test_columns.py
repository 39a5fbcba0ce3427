from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import DamageError, UsageError
from packer.notes import NOTES, note_bits
from packer.pack.columns import (
    ShardColumns,
    ShardRecord,
    cut_shard,
    encode_shard_index,
    encode_split_index,
    fingerprint,
    index_name,
    noted_samples,
    read_path,
    stored_fields,
)
from packer.pack.index import IndexFile, encode_index
from packer.types import Array, Field, Sample, ShardLayout

FIELDS = (
    Field("image", "image", "jpg", "jpeg"),
    Field("label", "label", "cls"),
    Field("extra", "bytes", "bin"),
)


def _layout(batches: Sequence[Sequence[Sample]], gap: int = 7) -> ShardLayout:
    """Payloads end to end, `gap` bytes before each batch."""
    offsets: dict[str, list[int]] = {"image": [], "extra": []}
    sizes: dict[str, list[int]] = {"image": [], "extra": []}
    starts, lengths = [], []
    end = 0
    for batch in batches:
        end += gap
        start = end
        for sample in batch:
            for name, found in offsets.items():
                payload = sample.payloads.get(name)
                found.append(-1 if payload is None else end)
                sizes[name].append(-1 if payload is None else len(payload))
                end += len(payload or b"")
        starts.append(start if end > start else 0)
        lengths.append(end - start)
    as_array = {name: np.array(values, np.int64) for name, values in offsets.items()}
    return ShardLayout(
        np.array(starts, np.int64),
        np.array(lengths, np.int64),
        as_array,
        {name: np.array(values, np.int64) for name, values in sizes.items()},
    )


def _record(number: int, batches: Sequence[Sequence[Sample]]) -> ShardRecord:
    return ShardRecord(
        name=f"train-{number:06d}.tar",
        size=1000 + number,
        sha256=f"{number + 1:064x}",
        fingerprint=(number, (1 << 32) - 1 - number),
        samples=sum(len(batch) for batch in batches),
        batches=len(batches),
    )


def _arrays(batches: Sequence[Sequence[Sample]]) -> dict[str, Array]:
    columns = ShardColumns(FIELDS)
    for batch in batches:
        columns.add_batch(batch)
    return columns.arrays(_layout(batches))


def _samples(count: int, first: int = 0) -> list[Sample]:
    return [
        Sample(
            slot=3 * number,
            path=b"%d.v1/\xff%d.jpg" % (number % 3, number),
            label=number - 1,
            width=10 + number,
            height=20 + number,
            payloads={"image": b"x" * number} | ({"extra": b"e"} if number % 2 else {}),
        )
        for number in range(first, first + count)
    ]


def _split(folder: Path, shards: Sequence[Sequence[Sequence[Sample]]]) -> IndexFile:
    records, indexes = [], []
    for number, batches in enumerate(shards):
        records.append(_record(number, batches))
        path = folder / index_name(records[-1].name)
        path.write_bytes(encode_shard_index(_arrays(batches), records[-1]))
        indexes.append(IndexFile(path))
    path = folder / index_name("train")
    path.write_bytes(encode_split_index("train", FIELDS, records, indexes, "ab" * 32))
    return IndexFile(path)


def test_columns_of_a_shard() -> None:
    samples = _samples(5)
    arrays = _arrays([samples[:2], [], samples[2:]])
    assert arrays["batch_first"].tolist() == [0, 2, 2]
    assert arrays["batch_count"].tolist() == [2, 0, 3]
    assert arrays["batch_offset"].tolist() == [7, 0, 7 + 2 + 7 + 7]
    assert arrays["slot"].tolist() == [0, 3, 6, 9, 12]
    assert arrays["label"].tolist() == [-1, 0, 1, 2, 3]
    assert (arrays["width"][4], arrays["height"][4]) == (14, 24)  # not exchanged
    assert arrays["extra.offset"].tolist()[0::2] == [-1, -1, -1]
    assert arrays["extra.size"].tolist() == [-1, 1, -1, 1, -1]
    assert arrays["image.crc32"].tolist() == [zlib.crc32(b"x" * n) for n in range(5)]
    assert arrays["extra.crc32"].tolist() == [0, zlib.crc32(b"e"), 0, zlib.crc32(b"e"), 0]
    assert "label.offset" not in arrays


@pytest.mark.parametrize("batches", [[], [[]], [[], []]])
def test_columns_of_nothing(batches: list[list[Sample]]) -> None:
    """All columns are there, with their types, so that a reader needs no special case."""
    full, empty = _arrays([_samples(2)]), _arrays(batches)
    assert list(full) == list(empty)
    for name, array in empty.items():
        assert array.dtype == full[name].dtype
        per_batch = name.startswith("batch_")
        assert len(array) == (len(batches) if per_batch else 1 if name == "path_offset" else 0)


def test_indexes_name_what_they_belong_to(tmp_path: Path) -> None:
    batches = [_samples(2), [], _samples(1, 2)]
    record = _record(4, batches)
    path = tmp_path / index_name(record.name)
    path.write_bytes(encode_shard_index(_arrays(batches), record))
    assert path.name == "train-000004.index"
    assert IndexFile(path).meta == {
        "kind": "shard",
        "shard": record.name,
        "bytes": record.size,
        "sha256": record.sha256,
        "fingerprint": list(record.fingerprint),
        "notes": list(NOTES),
    }
    assert _split(tmp_path, [[_samples(1)]]).meta == {
        "kind": "split",
        "split": "train",
        "pack": "ab" * 32,
        "shards": [_record(0, []).name],
        "notes": list(NOTES),
    }


@pytest.mark.parametrize("shape", [[[2, 0, 3], [1], [0], [4]], [[0, 0]], [[1]]])
def test_a_shards_index_can_be_cut_out_of_its_splits(
    tmp_path: Path, shape: list[list[int]]
) -> None:
    """Byte for byte, so that one that was lost can be made again."""
    samples = iter(range(100))
    shards = [[[_samples(1, next(samples))[0] for _ in range(n)] for n in part] for part in shape]
    split = _split(tmp_path, shards)
    for number, batches in enumerate(shards):
        record = _record(number, batches)
        data = encode_shard_index(cut_shard(split, number, FIELDS), record)
        assert data == (tmp_path / index_name(record.name)).read_bytes()


def test_paths_are_raw_bytes(tmp_path: Path) -> None:
    index = _split(tmp_path, [[_samples(3)], [_samples(2, 3)]])
    assert [read_path(index, i) for i in range(5)] == [s.path for s in _samples(5)]


@pytest.mark.parametrize("offsets", [[-1, 2], [2, 1], [0, 1 << 62], [1 << 62, 1 << 63 - 1]])
def test_paths_that_lie_outside_are_damage(tmp_path: Path, offsets: list[int]) -> None:
    index = _split(tmp_path, [[_samples(3)]])
    arrays = {name: index[name].copy() for name in index.names()}
    arrays["path_offset"][1:3] = offsets
    (tmp_path / "train.index").write_bytes(encode_index(arrays, index.meta))
    with pytest.raises(DamageError, match="the path of sample 1 lies outside"):
        read_path(IndexFile(tmp_path / "train.index"), 1)


@settings(max_examples=25, deadline=None)
@given(shape=st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4))
def test_split_index_equals_that_of_all_batches(
    tmp_path_factory: pytest.TempPathFactory, shape: list[list[int]]
) -> None:
    """Joining shard indexes gives what one shard with all batches would have, offsets apart."""
    folder = tmp_path_factory.mktemp("split")
    shards: list[list[list[Sample]]] = []
    number = 0
    for counts in shape:
        shards.append([])
        for count in counts:
            shards[-1].append(_samples(count, number))
            number += count
    index = _split(folder, shards)
    whole = _arrays([batch for batches in shards for batch in batches])
    for name, array in whole.items():
        if not name.endswith(("offset",)) or name == "path_offset":
            assert index[name].tolist() == array.tolist(), name
        assert index[name].dtype == array.dtype
    assert index["batch_shard"].tolist() == [i for i, part in enumerate(shape) for _ in part]
    assert index["shard_batches"].tolist() == [len(part) for part in shape]
    assert index["shard_samples"].tolist() == [sum(part) for part in shape]
    assert index["shard_bytes"].tolist() == [1000 + i for i in range(len(shape))]
    assert index["shard_sha256"].shape == (len(shape), 32)
    assert index["shard_fingerprint"].tolist() == [[i, 2**32 - 1 - i] for i in range(len(shape))]
    assert index.meta["shards"] == [f"train-{i:06d}.tar" for i in range(len(shape))]
    first = 0
    for number, batches in enumerate(shards):  # offsets stay those within the shard
        count = sum(len(batch) for batch in batches)
        own = _layout(batches)
        for name in ("image", "extra"):
            part = index[f"{name}.offset"][first : first + count]
            assert part.tolist() == own.field_offset[name].tolist()
        assert index["batch_offset"][index["batch_shard"] == number].tolist() == (
            own.batch_offset.tolist()
        )
        first += count


def test_index_bytes_are_reproducible(tmp_path: Path) -> None:
    batches = [_samples(3)]
    record = _record(0, batches)
    assert encode_shard_index(_arrays(batches), record) == encode_shard_index(
        _arrays(batches), record
    )


def test_sha256_is_kept_as_bytes(tmp_path: Path) -> None:
    index = _split(tmp_path, [[_samples(1)], [_samples(1, 1)]])
    assert index["shard_sha256"][1].tobytes().hex() == f"{2:064x}"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("train-000000.tar", "train-000000.index"),
        ("train-1000000.lmdb", "train-1000000.index"),
        ("a.b-000007.h5", "a.b-000007.index"),
        ("train", "train.index"),
        ("v1.0", "v1.0.index"),
        ("train-000000", "train-000000.index"),
    ],
)
def test_index_name(name: str, index: str) -> None:
    assert index_name(name) == index


def test_stored_fields() -> None:
    assert stored_fields(FIELDS) == ["image", "extra"]


def test_fingerprint_of_files_around_its_length(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for size in (0, 1, 8192, 8193, 100_000):
        data = bytes(n % 251 for n in range(size))
        path.write_bytes(data)
        with path.open("rb") as file:
            found = fingerprint(file.fileno(), size)
        assert found == (zlib.crc32(data[:8192]), zlib.crc32(data[-8192:] if size else b""))


def test_notes_are_found_by_name(tmp_path: Path) -> None:
    samples = _samples(6)
    for number, notes in ((1, ["gray"]), (3, ["kept", "gray"]), (4, ["extension"])):
        samples[number] = dataclasses.replace(samples[number], notes=note_bits(notes))
    index = _split(tmp_path, [[samples[:2]], [samples[2:4], samples[4:]]])
    assert noted_samples(index, ["gray"]).tolist() == [1, 3]
    assert noted_samples(index, ["kept", "extension"]).tolist() == [3, 4]
    assert noted_samples(index, ["cmyk"]).tolist() == []


def test_an_index_without_notes_is_read_and_says_so(tmp_path: Path) -> None:
    """Of an earlier packer; joined with others, none of them tells."""
    record, batches = _record(0, [_samples(2)]), [_samples(2)]
    arrays = _arrays(batches)
    del arrays["notes"]
    paths = [tmp_path / index_name(f"train-{number:06d}.tar") for number in range(2)]
    paths[0].write_bytes(encode_shard_index(arrays, record))
    paths[1].write_bytes(encode_shard_index(_arrays(batches), _record(1, batches)))
    indexes = [IndexFile(path) for path in paths]
    records = [record, _record(1, batches)]
    data = encode_split_index("train", FIELDS, records, indexes, "0" * 64)
    (tmp_path / "train.index").write_bytes(data)
    index = IndexFile(tmp_path / "train.index")
    assert index["slot"].tolist() == [0, 3, 0, 3]
    with pytest.raises(UsageError, match="an earlier packer"):
        noted_samples(index, ["gray"])
