"""Files beside the shards depend on the shards alone, and all ways of making packs write them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import DamageError, OutputError
from packer.merge import merge_pack
from packer.pack.index import IndexFile
from packer.pack.manifest import FileRecord, read_manifest
from packer.packing.completion import as_draft, write_beside
from packer.stage import StageOptions, stage_pack
from packer.writer import PackWriter
from tests.fixtures import MakeTree

OPTIONS = ConvertOptions(
    resize="48", batch_size=4, shard_size=8_000, split="train=0.8,val=0.2", jobs=1
)


def _check(pack: Path) -> None:
    """Every file is in the manifest as it is, and indexes name the pack."""
    manifest = read_manifest(pack)
    found = {
        path.name: FileRecord(path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in pack.iterdir()
    }
    del found["manifest.json"]
    assert found == manifest.all_files()
    for split in manifest.splits.values():
        assert IndexFile(pack / split.index).meta["pack"] == manifest.identity


def test_all_that_makes_packs_lists_every_file(tmp_path: Path, make_tree: MakeTree) -> None:
    tree = make_tree()
    convert_dataset(tree, tmp_path / "whole", OPTIONS)
    for number in range(2):
        part = dataclasses.replace(OPTIONS, part=(number, 2))
        convert_dataset(tree, tmp_path / "parts", part)
    merge_pack(tmp_path / "parts")
    with PackWriter(tmp_path / "written", classes=["a"]) as writer:
        writer.write(image=np.zeros((8, 8, 3), np.uint8), label=0, key="1.jpg")
    excerpt = stage_pack(tmp_path / "whole", tmp_path / "disk", StageOptions(("train",), 0.5)).path
    for name in ("whole", "parts", "written", excerpt):
        _check(tmp_path / name)
    whole, parts = (tmp_path / name / "manifest.json" for name in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()


def test_the_identity_is_of_content_not_of_place_or_time(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    tree = make_tree()
    identities = {}
    for name, options in (
        ("one", OPTIONS),
        ("again", dataclasses.replace(OPTIONS, jobs=2)),
        ("seed", dataclasses.replace(OPTIONS, seed=1)),
    ):
        convert_dataset(tree, tmp_path / name, options)
        identities[name] = read_manifest(tmp_path / name).identity
    assert identities["one"] == identities["again"] != identities["seed"]


def test_all_of_it_can_be_made_again_from_the_shards_indexes(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    pack = tmp_path / "pack"
    convert_dataset(make_tree(), pack, OPTIONS)
    before = {path.name: path.read_bytes() for path in pack.iterdir()}
    manifest = read_manifest(pack)
    for name in before:
        if name.rpartition(".")[0] not in {
            f"{s}-{n:06d}" for s in ("train", "val") for n in range(9)
        }:
            (pack / name).unlink()
    made = write_beside(pack, as_draft(manifest), b"", lambda name, data: _write(pack / name, data))
    assert made == manifest
    assert {path.name: path.read_bytes() for path in pack.iterdir()} == before


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def test_an_index_that_is_missing_is_named(tmp_path: Path, make_tree: MakeTree) -> None:
    pack = tmp_path / "pack"
    convert_dataset(make_tree(), pack, OPTIONS)
    (pack / "train-000001.index").unlink()
    with pytest.raises(DamageError, match=r"train-000001\.index: is missing"):
        write_beside(pack, as_draft(read_manifest(pack)), b"", lambda name, data: None)


def test_the_manifest_is_last(tmp_path: Path, make_tree: MakeTree) -> None:
    pack = tmp_path / "pack"
    convert_dataset(make_tree(), pack, OPTIONS)
    names: list[str] = []
    write_beside(pack, as_draft(read_manifest(pack)), b"", lambda name, data: names.append(name))
    assert names[-1] == "manifest.json"
    assert json.loads((pack / "manifest.json").read_bytes())["files"].keys() >= set(names[2:-1])


@pytest.mark.parametrize(
    ("key", "new"),
    [
        ("samples", 3),
        ("samples", 1 << 31),
        ("batches", 0),
        ("batches", 1 << 31),
        ("sha256", "0" * 64),
        ("fingerprint", [1, 2]),
    ],
)
def test_a_state_that_is_not_its_shards_is_refused(
    tmp_path: Path, make_tree: MakeTree, key: str, new: object
) -> None:
    """However large its numbers are, before anything is allocated for them."""
    tree, out = make_tree(classes=2), tmp_path / "pack"
    for number in range(2):
        part = dataclasses.replace(OPTIONS, part=(number, 2), merge_when_complete=False)
        convert_dataset(tree, out, part)
    path = out / ".packer" / "train-000000.json"
    state = json.loads(path.read_text())
    state["record"][key] = new
    path.write_text(json.dumps(state))
    with pytest.raises((DamageError, OutputError)):
        merge_pack(out)
    assert not (out / "manifest.json").exists()
