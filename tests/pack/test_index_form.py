"""Valid values in an index; each invalid one would end a process, or give wrong samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import DamageError
from packer.pack.columns import encode_split_index, index_name
from packer.pack.index import IndexFile, encode_index
from packer.pack.index_form import open_shard_index, open_split_index
from packer.pack.manifest import Manifest, read_manifest
from tests.fixtures import MakeTree

Arrays = dict[str, Any]


@pytest.fixture
def pack(tmp_path: Path, make_tree: MakeTree) -> Path:
    options = ConvertOptions(resize="48", batch_size=4, shard_size=8_000, jobs=1)
    convert_dataset(make_tree(classes=2, each=10), tmp_path / "pack", options)
    assert len(read_manifest(tmp_path / "pack").splits["train"].shards) > 2
    return tmp_path / "pack"


def _change(path: Path, change: Callable[[Arrays], object], **meta: object) -> None:
    index = IndexFile(path)
    arrays: Arrays = {name: index[name].copy() for name in index.names()}
    change(arrays)
    path.write_bytes(encode_index(arrays, {**index.meta, **meta}))


def _set(name: str, value: int, place: int = 5) -> Callable[[Arrays], object]:
    def change(arrays: Arrays) -> None:
        arrays[name][place] = value

    return change


def _become(name: str, make: Callable[[Any], Any]) -> Callable[[Arrays], object]:
    return lambda arrays: arrays.update({name: make(arrays[name])})


VALUES = [
    (_set("label", 2), "label 2 is none of 2 classes"),
    (_set("label", -2), "label -2 is none of 2 classes"),
    (_set("image.offset", -2), "sample 5: field 'image' lies outside of its batch"),
    (_set("image.offset", 1 << 62), "sample 5: field 'image' lies outside of its batch"),
    (_set("image.offset", -(1 << 63)), "sample 5: field 'image' lies outside of its batch"),
    (_set("image.size", -1), "sample 5: field 'image' lies outside of its batch"),
    (_set("image.size", (1 << 63) - 1), "sample 5: field 'image' lies outside of its batch"),
    (_set("width", 0), "sample 5: no picture of its size"),
    (_set("height", -1), "sample 5: no picture of its size"),
    (_set("width", (1 << 31) - 1), "sample 5: no picture of its size"),
    (_set("height", 65_000), "sample 5: no picture of its size"),
    (_set("batch_offset", -512, 1), "batch 1 lies outside of its shard"),
    (_set("batch_offset", (1 << 63) - 1, 1), "batch 1 lies outside of its shard"),
    (_set("batch_bytes", 1 << 40, 1), "batch 1 lies outside of its shard"),
    (_set("batch_bytes", -1, 1), "batch 1 lies outside of its shard"),
    (_set("batch_bytes", 0, 1), "lies outside of its batch"),
    (_set("batch_count", -1, 1), "the batches do not have the samples"),
    (_set("batch_count", 5, 1), "the batches do not have the samples"),
    (_set("batch_first", 1, 1), "the batches do not have the samples"),
    (_become("label", lambda array: array[:-1]), "array 'label' is"),
    (_become("label", lambda array: array.astype("<i8")), "array 'label' is"),
    (_become("slot", lambda array: array.astype("<f8")), "array 'slot' is"),
    (_become("width", lambda array: array[None]), "array 'width' is"),
    (_become("notes", lambda array: array[:2]), "array 'notes' is"),
    (_become("path_offset", lambda array: array[1:]), "array 'path_offset' is"),
    (_become("path_bytes", lambda array: array[None]), "array 'path_bytes' is"),
    (lambda arrays: arrays.pop("image.crc32"), "has no array 'image.crc32'"),
]


@pytest.mark.parametrize(("change", "words"), VALUES)
def test_invalid_values_are_refused(
    pack: Path, change: Callable[[Arrays], object], words: str
) -> None:
    """In a split's index, which readers open, and in a shard's, which is joined with others."""
    manifest = read_manifest(pack)
    shard = manifest.splits["train"].shards[0]
    open_split_index(pack, manifest, "train")
    open_shard_index(pack, shard, manifest.fields, len(manifest.classes))
    for path in (pack / "train.index", pack / index_name(shard.name)):
        _change(path, change)
    with pytest.raises(DamageError, match=rf"train\.index: .*{words}"):
        open_split_index(pack, manifest, "train")
    with pytest.raises(DamageError, match=rf"train-000000\.index: .*{words}"):
        open_shard_index(pack, shard, manifest.fields, len(manifest.classes))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("batch_shard", 1, 0), "a batch has another shard"),
        (_set("batch_shard", -1, 0), "a batch has another shard"),
        (_become("batch_shard", lambda array: array[1:]), "array 'batch_shard' is"),
        (_set("shard_samples", 5, 0), "does not describe the shards"),
        (_set("shard_bytes", 5, 0), "does not describe the shards"),
        (_become("shard_sha256", lambda array: array[:, 1:]), "array 'shard_sha256' is"),
        (_become("shard_fingerprint", lambda array: array[:1]), "array 'shard_fingerprint' is"),
    ],
)
def test_invalid_tables_of_shards_are_refused(
    pack: Path, change: Callable[[Arrays], object], words: str
) -> None:
    manifest = read_manifest(pack)
    _change(pack / "train.index", change)
    with pytest.raises(DamageError, match=words):
        open_split_index(pack, manifest, "train")


@pytest.mark.parametrize("notes", [None, "kept", [1], ["x"] * 33])
def test_invalid_lists_of_notes_are_refused(pack: Path, notes: object) -> None:
    manifest = read_manifest(pack)
    _change(pack / "train.index", lambda arrays: None, notes=notes)
    with pytest.raises(DamageError, match="list of notes"):
        open_split_index(pack, manifest, "train")


def test_an_index_of_another_shard_is_refused(pack: Path) -> None:
    manifest = read_manifest(pack)
    one, other = manifest.splits["train"].shards[:2]
    (pack / index_name(one.name)).write_bytes((pack / index_name(other.name)).read_bytes())
    with pytest.raises(DamageError, match="the index of another shard"):
        open_shard_index(pack, one, manifest.fields)


def test_absent_fields_and_splits_without_samples_are_right(tmp_path: Path) -> None:
    manifest = _empty(tmp_path)
    index = open_split_index(tmp_path, manifest, "train")
    assert len(index["label"]) == 0


def _empty(folder: Path) -> Manifest:
    from packer.pack.manifest import SplitRecord
    from packer.types import Field

    fields = (Field("image", "image", "jpg", "jpeg"), Field("label", "label", "cls"))
    split = SplitRecord(0, 0, "train.index", 0, "", ())
    manifest = Manifest("x", "tar", 4, fields, (), (), {"train": split}, identity="ab")
    data = encode_split_index("train", fields, (), (), "ab")
    (folder / "train.index").write_bytes(data)
    return manifest


def test_batches_of_many_samples_are_checked_to_the_last(
    pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked at in blocks."""
    manifest = read_manifest(pack)
    monkeypatch.setattr("packer.pack.index_form._BLOCK", 2)
    open_split_index(pack, manifest, "train")
    last = manifest.splits["train"].samples - 1
    _change(pack / "train.index", _set("image.size", 0, last))
    with pytest.raises(DamageError, match=rf"sample {last}: no picture of its size has so few"):
        open_split_index(pack, manifest, "train")
