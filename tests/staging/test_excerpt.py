from __future__ import annotations

import dataclasses
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import DamageError, SourceError, UsageError
from packer.pack.columns import ShardRecord
from packer.pack.manifest import NAME, SplitRecord, read_manifest
from packer.pack.opened import Pack
from packer.staging.excerpt import Excerpt, StageOptions, _first_shards, choose
from packer.staging.making import copy_pack
from tests.packs import BuildPack


def derive(excerpt: Excerpt, target: Path) -> dict[str, bytes]:
    """What follows from an excerpt's files, written into `target`."""
    written = {}

    def write(name: str, data: bytes) -> None:
        (target / name).write_bytes(data)
        written[name] = data

    excerpt.write_derived(target, write)
    return written


def split_of(sizes: list[int]) -> SplitRecord:
    shards = [ShardRecord(f"{n}", size, "", (0, 0), 1, 1) for n, size in enumerate(sizes)]
    return SplitRecord(len(sizes), len(sizes), "i", 0, "", tuple(shards))


@given(st.lists(st.integers(1, 10**12), max_size=8), st.floats(0, 1, exclude_min=True))
def test_the_first_shards_that_suffice(sizes: list[int], fraction: float) -> None:
    taken = [shard.size for shard in _first_shards(split_of(sizes), fraction)]
    assert taken == sizes[: len(taken)]
    if sizes:
        assert sum(taken) >= fraction * sum(sizes)
        assert sum(taken[:-1]) < fraction * sum(sizes)
        assert fraction < 1 or taken == sizes


def test_the_name_tells_content_and_excerpt(build_pack: BuildPack) -> None:
    """Another pack of the same name, the same made anew, and an excerpt: all different."""
    first = build_pack([[4], [4]], name="a/pack").root
    other = build_pack([[4], [4]], name="b/pack", seed=1).root
    same = shutil.copytree(first, first.parent.parent / "c" / "pack")
    names = [choose(root, StageOptions()).folder_name for root in (first, other, same)]
    assert names[0] == names[2] != names[1]
    assert names[0].startswith("pack-")
    half = choose(first, StageOptions(fraction=0.5))
    assert [shard.name for shard in half.shards["train"]] == ["train-000000.tar"]
    assert half.folder_name not in names
    # All of it by another way is all of it.
    assert choose(first, StageOptions(("train",), 0.99)).folder_name == names[0]
    assert choose(first, StageOptions(("train",), 0.99)).is_whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (StageOptions(fraction=0), "fraction 0 is not"),
        (StageOptions(fraction=1.5), r"fraction 1\.5 is not"),
        (StageOptions(jobs=0), "jobs 0 is not"),
        (StageOptions(("trian",)), "no split 'trian'.*did you mean 'train'"),
    ],
)
def test_what_cannot_be(build_pack: BuildPack, options: StageOptions, message: str) -> None:
    root = build_pack([[2]]).root
    with pytest.raises(UsageError, match=message):
        choose(root, options)


def test_no_pack(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not a pack"):
        choose(tmp_path, StageOptions())


def test_what_is_copied_and_what_follows(build_pack: BuildPack, tmp_path: Path) -> None:
    built = build_pack([[4], [4]], "lmdb")
    (built.root / "report.html").write_text("<p>")
    (built.root / "notes of mine.txt").write_text("not the pack's")
    whole = choose(built.root, StageOptions())
    names = {copy.target.name for copy in whole.files(tmp_path)}
    shards = {f"train-00000{n}.{kind}" for n in range(2) for kind in ("lmdb", "index")}
    beside = {"train.index", "skipped.jsonl", "README.md", "report.html"}
    assert names == {*shards, *beside}
    assert derive(whole, tmp_path) == {NAME: (built.root / NAME).read_bytes()}
    half = choose(built.root, StageOptions(fraction=0.5))
    names = {copy.target.name for copy in half.files(tmp_path)}
    assert names == {"train-000000.lmdb", "train-000000.index"}


def test_an_index_of_a_shard_is_compared_by_its_digest(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    """An index of another conversion must not be used with a shard."""
    root = build_pack([[4], [4]]).root
    files = {copy.source.name: copy for copy in choose(root, StageOptions()).files(tmp_path)}
    data = (root / "train-000000.index").read_bytes()
    assert files["train-000000.index"].size == len(data)
    assert files["train-000000.index"].sha256 == hashlib.sha256(data).hexdigest()


def test_an_excerpt_needs_the_indexes_of_its_shards(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack([[4], [4]]).root
    (root / "train-000000.index").unlink()
    whole = choose(root, StageOptions()).files(tmp_path)  # a whole split has its own
    assert "train-000000.index" not in {copy.source.name for copy in whole}
    with pytest.raises(DamageError, match=r"train-000000\.index: is missing"):
        copy_pack(root, tmp_path / "disk", StageOptions(fraction=0.5))


def test_counts_of_an_excerpt_add_up(build_pack: BuildPack, tmp_path: Path) -> None:
    built = build_pack([[4, 3], [4]])
    half = choose(built.root, StageOptions(fraction=0.5))
    for copy in half.files(tmp_path):
        shutil.copy(copy.source, copy.target)
    written = derive(half, tmp_path)
    assert [*written][:1] == ["train.index"] and [*written][-1] == NAME
    manifest = read_manifest(tmp_path)
    counts = manifest.counts
    assert counts["planned"] == counts["packed"] + counts["skipped"] == 7
    assert counts["excerpt_of"] == {"samples": 11, "shards": 2}
    assert manifest.identity == built.manifest.identity
    same: dict[str, Any] = {"splits": {}, "counts": {}, "files": {}}
    assert dataclasses.replace(manifest, **same) == dataclasses.replace(built.manifest, **same)
    assert len(Pack(tmp_path)) == 7
