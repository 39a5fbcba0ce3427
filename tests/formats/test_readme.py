"""The spec's snippets, run as they stand on a pack of two shards."""

from __future__ import annotations

import hashlib
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import packer.formats
from packer import registry
from packer.pack.columns import ShardColumns, ShardRecord, encode_shard_index, encode_split_index
from packer.pack.index import IndexFile
from packer.pack.manifest import seal
from packer.types import Sample
from tests.formats.shards import BuildShard, ImageFields, MakeBatches

README = Path(packer.formats.__file__).with_name("README.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"^```python (\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
FORMATS = ("tar", "lmdb", "hdf5")


def _run(name: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    variables = dict(variables or {})
    exec(compile(SNIPPETS[name], f"README.md, {name}", "exec"), variables)
    return variables


#: Makes a split of two shards of this format in the working directory.
MakeSplit = Callable[[str], list[Sample]]


@pytest.fixture
def pack(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    build: BuildShard,
    image_fields: ImageFields,
    make_batches: MakeBatches,
) -> MakeSplit:
    """pack(format) makes a split of two shards in the working directory; → its samples."""
    monkeypatch.chdir(tmp_path)

    def make(format_name: str) -> list[Sample]:
        batches = make_batches([3, 0, 2, 4])
        fields = image_fields(None)
        records, indexes = [], []
        for number, part in enumerate((batches[:3], batches[3:])):
            shard = build(format_name, fields, part, name=f"train-{number:06d}")
            columns = ShardColumns(fields)
            for batch in part:
                columns.add_batch(batch)
            data = shard.path.read_bytes()
            record = ShardRecord(
                name=shard.path.name,
                size=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                fingerprint=(zlib.crc32(data[:8192]), zlib.crc32(data[-8192:])),
                samples=len(shard.samples),
                batches=len(part),
            )
            index = shard.path.with_suffix(".index")
            index.write_bytes(encode_shard_index(columns.arrays(shard.layout), record))
            records.append(record)
            indexes.append(IndexFile(index))
        split = encode_split_index("train", fields, records, indexes, "")
        Path("train.index").write_bytes(split)
        return [sample for batch in batches for sample in batch]

    return make


def test_all_snippets_are_known() -> None:
    assert set(SNIPPETS) == {
        "manifest",
        "index",
        "pread",
        "tarfile",
        "webdataset",
        "lmdb",
        "hdf5",
    }
    assert README.count("```python") == len(SNIPPETS)


def test_a_manifest_is_checked_in_five_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len([line for line in SNIPPETS["manifest"].splitlines() if line]) == 5
    data = seal({"packer": "packer", "classes": ["\udcff"]})
    Path("manifest.json").write_bytes(data)
    _run("manifest")
    Path("manifest.json").write_bytes(data.replace(b"dcff", b"dcfe"))
    with pytest.raises(AssertionError):
        _run("manifest")


def test_index_is_read_in_five_lines(pack: MakeSplit) -> None:
    samples = pack("tar")
    assert len([line for line in SNIPPETS["index"].splitlines() if line]) == 5
    index = _run("index")["index"]
    ours = IndexFile(Path("train.index"))
    assert list(index) == ours.names()
    for name, array in index.items():
        assert np.array_equal(array, ours[name])
        assert array.dtype == ours[name].dtype
    assert index["slot"].tolist() == [sample.slot for sample in samples]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("batch", [0, 2, 3])
def test_batch_is_read_by_one_pread(pack: MakeSplit, format_name: str, batch: int) -> None:
    samples = pack(format_name)
    variables = _run("index")
    code = SNIPPETS["pread"].replace("batch = 0\n", f"batch = {batch}\n")
    exec(code, variables)
    expected = {0: samples[:3], 2: samples[3:5], 3: samples[5:]}[batch]
    assert variables["images"] == [sample.payloads["image"] for sample in expected]


def test_tar_is_read_by_tarfile(pack: MakeSplit) -> None:
    samples = pack("tar")[:5]
    members = _run("tarfile")["members"]
    assert len(members) == 10
    for sample in samples:
        assert members[f"{sample.slot:09d}.jpg"] == sample.payloads["image"]
        assert members[f"{sample.slot:09d}.cls"] == b"%d" % sample.label


def test_tar_is_read_by_webdataset(pack: MakeSplit) -> None:
    samples = pack("tar")[:5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # webdataset's own
        seen = _run("webdataset")["samples"]
    assert seen == [(f"{s.slot:09d}", s.payloads["image"], s.label) for s in samples]


@pytest.mark.parametrize("format_name", ["lmdb", "hdf5"])
def test_shard_is_read_by_its_library_alone(pack: MakeSplit, format_name: str) -> None:
    samples = pack(format_name)[:5]
    for path in Path().glob("*.index"):
        path.unlink()  # it is enough by itself
    variables = _run(format_name)
    assert [bytes(image) for image in variables["images"]] == [s.payloads["image"] for s in samples]
    assert variables["labels"].tolist() == [sample.label for sample in samples]


def test_every_format_is_in_the_spec() -> None:
    for name in registry.names("formats"):
        assert f'`"{name}"`' in README
    for name in registry.names("codecs"):
        assert f'`"{name}"`' in README


def test_every_column_is_in_the_spec(pack: MakeSplit) -> None:
    pack("tar")
    for path in ("train.index", "train-000000.index"):
        index = IndexFile(Path(path))
        for name in index.names():
            written = name.replace("image.", "F.")
            row = re.search(
                rf"^\|.*`{re.escape(written)}`.*\| (u1 × 32|u4 × 2|\w\w) \|", README, re.M
            )
            assert row, f"{name} is not in README.md"
            array = index[name]
            width = f" × {array.shape[1]}" if array.ndim == 2 else ""
            assert row[1] == f"{array.dtype.kind}{array.dtype.itemsize}{width}"
        for key in index.meta:
            assert f"`{key}`" in README
