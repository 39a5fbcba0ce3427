from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer import registry
from packer.errors import DamageError
from packer.formats.tar import Writer
from packer.pack.columns import (
    ShardColumns,
    ShardRecord,
    cut_shard,
    encode_shard_index,
    encode_split_index,
)
from packer.pack.index import IndexFile
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.companions import companion_files, dali_index, member_lines
from packer.types import NO_LABEL, Field, Sample

LABEL = Field("label", "label", "cls")
FIELDS = (Field("image", "bytes", "jpg"), LABEL, Field("extra", "bytes", "meta.json"))
Batches = Sequence[Sequence[Sample]]


def _batches(counts: Sequence[int], first: int = 0) -> list[list[Sample]]:
    draw = np.random.default_rng(first)
    batches: list[list[Sample]] = []
    slot = first
    for count in counts:
        batches.append([])
        for _ in range(count):
            payloads = {"image": draw.bytes(int(draw.integers(0, 2000)))}
            if slot % 3:
                payloads["extra"] = b"{}"
            label = NO_LABEL if slot % 5 == 4 else slot % 300
            batches[-1].append(Sample(slot, b"p", label, 5, 4, payloads))
            slot += 1
    return batches


def _pack(
    out: Path, splits: dict[str, list[Batches]], fields: Sequence[Field] = FIELDS
) -> Manifest:
    """Tar shards and indexes of a pack, without what `packer convert` adds."""
    described = {}
    for split, shards in splits.items():
        records, indexes = [], []
        for number, batches in enumerate(shards):
            name = f"{split}-{number:06d}"
            writer = Writer(out / f"{name}.tar", fields, one_size=False)
            columns = ShardColumns(fields)
            for batch in batches:
                writer.add_batch(batch)
                columns.add_batch(batch)
            layout = writer.close()
            size = (out / f"{name}.tar").stat().st_size
            count = sum(len(batch) for batch in batches)
            record = ShardRecord(f"{name}.tar", size, "0" * 64, (0, 0), count, len(batches))
            path = out / f"{name}.index"
            path.write_bytes(encode_shard_index(columns.arrays(layout), record))
            records.append(record)
            indexes.append(IndexFile(path))
        data = encode_split_index(split, fields, records, indexes, "")
        (out / f"{split}.index").write_bytes(data)
        described[split] = SplitRecord(
            samples=sum(record.samples for record in records),
            batches=sum(record.batches for record in records),
            index=f"{split}.index",
            index_bytes=len(data),
            index_sha256="0" * 64,
            shards=tuple(records),
        )
    classes = tuple(map(str, range(300)))
    return Manifest("test", "tar", 4, tuple(fields), classes, classes, described)


def _as_wds2idx(path: Path) -> bytes:
    """What DALI's tools/wds2idx.py makes of a tar file, by its description."""
    lines: list[list[str]] = []
    last = None
    with tarfile.open(path) as archive:
        for member in archive:
            key, extension = member.name.split(".", 1)
            if key != last:
                lines.append([])
                last = key
            lines[-1].append(f"{extension} {member.offset_data} {member.size} {member.name}")
    text = [f"v1.2 {len(lines)}", *(" ".join(line) for line in lines)]
    return "".join(f"{line}\n" for line in text).encode()


def test_dali_index_is_that_of_its_own_tool(tmp_path: Path) -> None:
    splits: dict[str, list[Batches]] = {
        "train": [_batches([4, 0, 3]), _batches([0]), _batches([1, 4], 20)],
        "val": [_batches([6], 50)],
    }
    files = dict(companion_files(tmp_path, _pack(tmp_path, splits)))
    names = ["train-000000", "train-000001", "train-000002", "val-000000"]
    assert [name for name in files if name.endswith(".idx")] == [f"{name}.idx" for name in names]
    for name in names:
        assert files[f"{name}.idx"] == _as_wds2idx(tmp_path / f"{name}.tar")
    assert files["train-000001.idx"] == b"v1.2 0\n"


def test_offsets_are_dalis(tmp_path: Path) -> None:
    """Version 1.2: offsets are multiples of 512, names have no spaces, all is ASCII."""
    files = dict(companion_files(tmp_path, _pack(tmp_path, {"train": [_batches([9])]})))
    _, *lines = files["train-000000.idx"].decode("ascii").splitlines()
    data = (tmp_path / "train-000000.tar").read_bytes()
    samples = _batches([9])[0]
    for line, sample in zip(lines, samples, strict=True):
        words = line.split(" ")
        assert len(words) % 4 == 0
        assert int(words[1]) % 512 == 0
        assert data[int(words[1]) :][: int(words[2])] == sample.payloads["image"]


@pytest.mark.skipif("raw" not in registry.names("codecs"), reason="there is no codec raw")
def test_raw_pictures_count_their_file_header(tmp_path: Path) -> None:
    """The index points at pixels, DALI's at the `.npy` file around them."""
    fields = (Field("image", "image", "npy", "raw"), LABEL)
    samples = [Sample(i, b"p", i, 5, 4, {"image": bytes(range(60))}) for i in range(3)]
    files = dict(companion_files(tmp_path, _pack(tmp_path, {"train": [[samples]]}, fields)))
    assert files["train-000000.idx"] == _as_wds2idx(tmp_path / "train-000000.tar")
    _, offset, size, _ = files["train-000000.idx"].decode().splitlines()[2].split(" ")[:4]
    array = (tmp_path / "train-000000.tar").read_bytes()[int(offset) :][: int(size)]
    assert np.load(io.BytesIO(array)).shape == (4, 5, 3)


def test_wids_and_timm(tmp_path: Path) -> None:
    splits: dict[str, list[Batches]] = {
        "train": [_batches([4, 3]), _batches([2], 20)],
        "val": [_batches([5], 50)],
        "test": [],
    }
    files = dict(companion_files(tmp_path, _pack(tmp_path, splits)))
    assert {name for name in files if not name.endswith(".idx")} == {
        "train.wids.json",
        "val.wids.json",
        "_info.json",
    }
    wids = json.loads(files["train.wids.json"])
    assert (wids["__kind__"], wids["wids_version"]) == ("wids-shard-index-v1", 1)
    assert [(shard["url"], shard["nsamples"]) for shard in wids["shardlist"]] == [
        ("train-000000.tar", 7),
        ("train-000001.tar", 2),
    ]
    for shard in wids["shardlist"]:
        assert shard["filesize"] == (tmp_path / shard["url"]).stat().st_size
    info = json.loads(files["_info.json"])["splits"]
    assert info["train"] == {
        "name": "train",
        "num_samples": 9,
        "filenames": ["train-000000.tar", "train-000001.tar"],
        "shard_lengths": [7, 2],
    }
    assert info["test"]["num_samples"] == 0


def test_samples_that_no_tar_reader_sees_are_not_counted(tmp_path: Path) -> None:
    samples = [
        Sample(0, b"p", 3, 1, 1, {}),
        Sample(1, b"p", NO_LABEL, 1, 1, {}),
        Sample(2, b"p", NO_LABEL, 1, 1, {"image": b"x"}),
    ]
    files = dict(companion_files(tmp_path, _pack(tmp_path, {"train": [[samples]]})))
    assert files["train-000000.idx"] == _as_wds2idx(tmp_path / "train-000000.tar")
    assert json.loads(files["_info.json"])["splits"]["train"]["num_samples"] == 2


@pytest.mark.parametrize("format_name", ["lmdb", "hdf5"])
def test_other_formats_have_none(tmp_path: Path, format_name: str) -> None:
    manifest = Manifest("test", format_name, 4, FIELDS, (), (), {})
    assert list(companion_files(tmp_path, manifest)) == []


@pytest.mark.parametrize("change", ["offset", "size", "batch"])
def test_columns_of_no_tar_shard_are_refused(tmp_path: Path, change: str) -> None:
    _pack(tmp_path, {"train": [_batches([3, 2])]})
    columns: dict[str, Any] = cut_shard(IndexFile(tmp_path / "train.index"), 0, FIELDS)
    assert len(member_lines(columns, FIELDS)) == 5
    name = {"offset": "image.offset", "size": "image.size", "batch": "batch_bytes"}[change]
    columns[name] = columns[name].copy()
    columns[name][1] += 512
    with pytest.raises(DamageError, match=r"no tar member|add up"):
        member_lines(columns, FIELDS)


def test_dali_index_of_nothing() -> None:
    assert dali_index([]) == b"v1.2 0\n"
