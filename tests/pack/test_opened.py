from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.errors import DamageError, SourceError, UsageError
from packer.pack.manifest import Manifest, seal
from packer.pack.opened import Pack
from packer.writer import PackWriter
from tests.packs import BuildPack

SHARDS = [[4, 4], [3], [4]]


def edit_manifest(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = root / "manifest.json"
    value = json.loads(path.read_bytes())
    change(value)
    del value["sha256"]
    path.write_bytes(seal(value))


def test_knows_what_is_where(build_pack: BuildPack, format_name: str) -> None:
    built = build_pack([[4, 0, 4], [3]], format_name)
    pack = Pack(built.root)
    assert len(pack) == 11
    # An empty batch is never the batch of a sample.
    assert pack.batch_of(np.arange(11)).tolist() == [0] * 4 + [2] * 4 + [3] * 3
    assert [pack.key(sample) for sample in range(11)] == built.keys
    assert pack.stored_fields() == ["image"]
    place = pack.describe(9, "image")
    offset = int(pack.index["image.offset"][9])
    assert f"{built.shard(1).name}, batch 3, offset {offset}, image of 'class4/9.v1.jpg'" in place
    assert str(built.root) in place


COUNT_OPENS = """
import sys
counted = []
sys.addaudithook(lambda event, args: counted.append((event, str(args[0]))) if event in (
    "open", "os.open", "os.scandir", "os.listdir"
) and str(args[0]).startswith(sys.argv[1]) else None)
from packer.pack.opened import Pack
from packer.writer import PackWriter
counted.clear()
pack = Pack(sys.argv[1])
found = list(counted)
import pickle
data = pickle.dumps(pack)
counted.clear()
pickle.loads(data)
print([sum(event.endswith(kind) for event, _ in found) for kind in ("open", "scandir", "listdir")])
print([sum(event.endswith(kind) for event, _ in counted) for kind in ("open", "dir")])
"""


@pytest.mark.parametrize("shards", [1, 12])
def test_opening_costs_two_opens_and_one_listing(build_pack: BuildPack, shards: int) -> None:
    """Whatever the number of shards; and no listing in a worker process."""
    built = build_pack([[2]] * shards)
    done = subprocess.run(
        [sys.executable, "-c", COUNT_OPENS, str(built.root)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["[2, 1, 0]", "[2, 0]"]


def test_pickles_small(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    data = pickle.dumps(Pack(built.root))
    assert len(data) < 500
    assert len(pickle.loads(data)) == 15


def test_another_pack_in_its_place_is_noticed_in_workers(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    built, other = build_pack(SHARDS), build_pack(SHARDS, seed=5, name="other")
    data = pickle.dumps(Pack(built.root))
    built.root.rename(tmp_path / "old")
    other.root.rename(built.root)
    with pytest.raises(DamageError, match="another pack took its place"):
        pickle.loads(data)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (-1024, "train-000002.{ext} is cut short"),
        ("half", "train-000002.{ext} is cut short"),
        (0, r"train-000002.{ext} is cut short \(0 of"),
        (None, "train-000002.{ext} is missing"),
        (+7, "train-000002.{ext} is too long"),
    ],
)
def test_a_shard_of_another_size_is_found_at_open(
    build_pack: BuildPack, format_name: str, size: Any, words: str
) -> None:
    """A truncated last shard was read as a shorter one: cut by 1 KB, by half, to nothing, missing,
    or longer is an error.
    """
    built = build_pack(SHARDS, format_name)
    shard = built.shard(2)
    whole = shard.stat().st_size
    if size is None:
        shard.unlink()
    elif size == 7:
        with shard.open("ab") as file:
            file.write(b"appended")
    else:
        os.truncate(shard, 0 if size == 0 else whole // 2 if size == "half" else whole - 1024)
    with pytest.raises(DamageError, match=words.format(ext=shard.suffix[1:])) as caught:
        Pack(built.root)
    assert f"packer verify {built.root}" in caught.value.hint


def test_many_damaged_shards_make_a_short_message(build_pack: BuildPack) -> None:
    built = build_pack([[1]] * 9)
    for number in range(8):
        built.shard(number).unlink()
    with pytest.raises(DamageError, match=r"000002\.tar is missing, and 5 more") as caught:
        Pack(built.root)
    assert "000003" not in str(caught.value)


def test_links_are_followed_and_dangling_ones_missing(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    built = build_pack(SHARDS)
    away = tmp_path / "elsewhere.tar"
    built.shard(1).rename(away)
    built.shard(1).symlink_to(away)
    assert len(Pack(built.root)) == 15
    away.unlink()
    with pytest.raises(DamageError, match=r"train-000001.tar is missing"):
        Pack(built.root)


def test_an_index_of_another_conversion_is_refused(build_pack: BuildPack) -> None:
    """An index that does not fit its shards: same names, sizes and counts, other content."""
    built, other = build_pack(SHARDS), build_pack(SHARDS, seed=5, name="other")
    assert (built.root / "train.index").stat().st_size == (
        other.root / "train.index"
    ).stat().st_size
    shutil.copy(other.root / "train.index", built.root / "train.index")
    with pytest.raises(DamageError, match=r"train\.index: does not describe the shards"):
        Pack(built.root)


def test_a_damaged_index_is_refused(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    path = built.root / "train.index"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamageError, match="header is damaged"):
        Pack(built.root)
    os.truncate(path, len(data) - 1)
    with pytest.raises(DamageError, match=r"train\.index is cut short"):
        Pack(built.root)


def test_counts_that_differ_from_the_manifest_are_refused(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)

    def change(value: dict[str, Any]) -> None:
        value["splits"]["train"]["shards"][0]["samples"] += 1
        value["splits"]["train"]["shards"][1]["samples"] -= 1

    edit_manifest(built.root, change)
    with pytest.raises(DamageError, match="does not describe"):
        Pack(built.root)


def test_labels_beyond_the_classes_are_refused(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)

    def change(value: dict[str, Any]) -> None:
        for name in ("classes", "display_names"):
            value[name] = value[name][:4]

    edit_manifest(built.root, change)
    with pytest.raises(DamageError, match=r"train\.index: label 4 is none of 4 classes"):
        Pack(built.root)


def test_an_index_of_a_pack_with_the_same_shards_is_refused(tmp_path: Path) -> None:
    """Paths are in no tar shard: the index says which pack it belongs to."""
    for name, prefix in (("one", "a"), ("other", "b")):
        with PackWriter(tmp_path / name, classes=["x"]) as writer:
            for number in range(3):
                pixels = np.full((8, 8, 3), number, np.uint8)
                writer.write(image=pixels, label=0, key=f"{prefix}{number}.jpg")
    shards = [(tmp_path / name / "train-000000.tar").read_bytes() for name in ("one", "other")]
    assert shards[0] == shards[1]
    shutil.copy(tmp_path / "other" / "train.index", tmp_path / "one" / "train.index")
    with pytest.raises(DamageError, match=r"train\.index: does not describe the shards"):
        Pack(tmp_path / "one")


def test_touching_changes_nothing(build_pack: BuildPack) -> None:
    """A modification time that changes alone must not make a pack invalid."""
    built = build_pack(SHARDS)
    for path in built.root.iterdir():
        os.utime(path, (1, 1))
    assert len(Pack(built.root)) == 15


def test_what_is_no_pack_is_refused(build_pack: BuildPack, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        Pack(tmp_path / "nothing")
    with pytest.raises(SourceError, match="not a pack"):
        Pack(tmp_path)
    built = build_pack(SHARDS)
    with pytest.raises(UsageError, match=r"no split 'trian'.*did you mean 'train'"):
        Pack(built.root, "trian")
    (built.root / "manifest.json").unlink()
    (built.root / ".packer").mkdir()
    with pytest.raises(SourceError, match="unfinished"):
        Pack(built.root)


def test_an_empty_split_is_a_split(build_pack: BuildPack) -> None:
    built = build_pack([])
    assert isinstance(built.manifest, Manifest)
    assert len(Pack(built.root)) == 0


def test_a_relative_root_survives_a_change_of_folder(
    build_pack: BuildPack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_pack(SHARDS)
    monkeypatch.chdir(tmp_path)
    pack = Pack("pack")
    monkeypatch.chdir("/")
    assert pack.shard_path(0).is_file()
