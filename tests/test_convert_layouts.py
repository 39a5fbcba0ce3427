"""Conversions of folders with other files than pictures in class folders."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import SourceError, TooManySkipped, UsageError
from packer.input import Input, open_input, open_list
from packer.merge import merge_pack
from packer.reader import PackedDataset
from packer.reporting import Reporter
from packer.verify import VerifyOptions, verify_pack
from tests.fixtures import Digest, MakeTree

OPTIONS = ConvertOptions(resize="32", batch_size=4, shard_size=8_000, jobs=1, backend="sequential")


class _Heard(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


def options(**changes: Any) -> ConvertOptions:
    return ConvertOptions(**{**vars(OPTIONS), **changes})


def listed(tree: Path) -> Input:
    """The folder as a list of its files, those of packs too."""
    paths = b"\0".join(os.fsencode(path) for path in tree.rglob("*"))
    return open_list(paths, top=tree, null=True)


def classes_and_counts(out: Path) -> tuple[list[str], dict[str, Any]]:
    value = json.loads((out / "manifest.json").read_bytes())
    return value["classes"], value["counts"]


@pytest.mark.parametrize("open_", [open_input, listed])
def test_the_pack_may_lie_in_the_source(
    make_tree: MakeTree, tmp_path: Path, digest_tree: Digest, open_: Callable[[Path], Input]
) -> None:
    """In all orders: once, again, in parts, merged, with --force, another size, verified."""
    tree = make_tree(classes=2, each=6)
    outside = convert_dataset(open_(tree), tmp_path / "outside", OPTIONS)
    (tree / "pack").mkdir()  # made by hand before
    inside = tree / "pack"
    for part in ((0, 2), (1, 2)):
        convert_dataset(open_(tree), inside, options(part=part))
    merge_pack(inside)
    assert digest_tree(inside) == digest_tree(outside.out)
    assert convert_dataset(open_(tree), inside, OPTIONS).was_complete
    heard = _Heard()
    small = convert_dataset(open_(tree), tree / "small", options(resize="16"), reporter=heard)
    assert heard.warnings == []
    assert "passed over what packer made, 1 in all: pack" in heard.notes
    assert classes_and_counts(small.out)[0] == ["001.class0", "002.class1"]
    assert classes_and_counts(small.out)[1]["ignored"] == {"pack": 1}
    again = convert_dataset(open_(tree), inside, options(resize="24"), force=True)
    assert again.moved is not None
    assert again.moved.parent == tree
    assert classes_and_counts(inside)[0] == ["001.class0", "002.class1"]
    third = convert_dataset(open_(tree), inside, OPTIONS, force=True)
    assert third.manifest is not None
    assert third.manifest.classes == ("001.class0", "002.class1")
    result = verify_pack(inside, VerifyOptions(against=open_(tree), jobs=1), reporter=Reporter())
    assert result.damage == []


def test_a_tar_of_a_folder_with_packs_is_the_folder(
    make_tree: MakeTree, tmp_path: Path, digest_tree: Digest
) -> None:
    tree = make_tree("photos", classes=2, each=3)
    convert_dataset(tree, tree / "pack", OPTIONS)
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(tree, "photos")
    one = convert_dataset(tree, tmp_path / "one", OPTIONS)
    other = convert_dataset(tmp_path / "photos.tar", tmp_path / "other", OPTIONS)
    assert digest_tree(one.out) == digest_tree(other.out)
    assert classes_and_counts(one.out)[1]["ignored"] == {"pack": 1}


@pytest.mark.parametrize("kind", ["folder", "tar", "list"])
def test_missing_pictures_are_skips_that_count(
    make_tree: MakeTree, tmp_path: Path, kind: str
) -> None:
    """As in a checkout of git-annex whose files were not fetched. Once they are, the same works."""
    tree = make_tree("photos", classes=2, each=8)
    fetched = {}
    for path in sorted(tree.rglob("*.jpg"))[:12]:
        fetched[path] = path.read_bytes()
        path.unlink()
        path.symlink_to(f"../.git/annex/objects/{path.name}")

    def source() -> Input:
        if kind == "list":
            return listed(tree)
        if kind == "folder":
            return open_input(tree)
        with tarfile.open(tmp_path / "photos.tar", "w") as archive:
            archive.add(tree, "photos")
        return open_input(tmp_path / "photos.tar")

    out = tmp_path / "pack"
    with pytest.raises(TooManySkipped) as caught:
        convert_dataset(source(), out, OPTIONS)
    assert "12 of 16 pictures skipped, 10 allowed (12 missing; first: " in str(caught.value)
    assert "git annex get" in str(caught.value)
    assert not out.exists()
    for part in ((0, 2), (1, 2)):
        some = options(part=part, max_skipped=12)
        convert_dataset(source(), tmp_path / "some", some)
    manifest = merge_pack(tmp_path / "some", max_skipped=12).manifest
    assert (manifest.counts["packed"], manifest.counts["skipped"]) == (4, 12)
    ledger = (tmp_path / "some" / "skipped.jsonl").read_text().splitlines()
    assert {json.loads(line)["reason"] for line in ledger} == {"missing"}
    for path, content in fetched.items():
        path.unlink()
        path.write_bytes(content)
    assert convert_dataset(source(), out, OPTIONS).manifest is not None
    assert classes_and_counts(out)[1]["packed"] == 16


def test_pointer_files_are_named_with_the_command_that_fetches_them(
    make_tree: MakeTree, tmp_path: Path
) -> None:
    tree = make_tree("photos", classes=1, each=3)
    pointers = {
        "lfs.jpg": b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n",
        "annex.jpg": b"/annex/objects/SHA256E-s9--ab.jpg\n",
    }
    for name, content in pointers.items():
        (tree / "001.class0" / name).write_bytes(content)
    (tree / "001.class0" / "dvc.jpg.dvc").write_bytes(b"outs:\n- md5: ab\n  path: dvc.jpg\n")
    convert_dataset(tree, tmp_path / "pack", OPTIONS)
    lines = (tmp_path / "pack" / "skipped.jsonl").read_text().splitlines()
    ledger = [json.loads(line) for line in lines]
    details = {Path(line["path"]).name: line["detail"] for line in ledger}
    assert "git lfs pull" in details["lfs.jpg"]
    assert "git annex get" in details["annex.jpg"]
    assert "dvc pull" in details["dvc.jpg"]


def test_packs_shards_are_sources_with_their_labels(
    make_tree: MakeTree, tmp_path: Path, digest_tree: Digest
) -> None:
    """A shard in place, unpacked, and as a list of files."""
    tree = make_tree("photos", classes=3, each=4)
    first = convert_dataset(tree, tmp_path / "first", options(shard_size=10**9))
    shard = first.out / "train-000000.tar"
    unpacked = tmp_path / "unpacked"
    with tarfile.open(shard) as archive:
        archive.extractall(unpacked, filter="data")
    heard = _Heard()
    sources = {"a": open_input(shard), "b": open_input(unpacked), "c": listed(unpacked)}
    for name, source in sources.items():
        convert_dataset(source, tmp_path / name, OPTIONS, reporter=heard)
    assert heard.warnings == []
    labels = PackedDataset(first.out, "train", decode="bytes").targets.tolist()
    for name in sources:
        again = PackedDataset(tmp_path / name, "train", decode="bytes")
        slots = [int(Path(key).stem) for key in again.keys]
        assert [labels[slot] for slot in slots] == again.targets.tolist()
        assert again.classes == ["0", "1", "2"]
        listing = json.loads((tmp_path / name / "manifest.json").read_bytes())["listing_sha256"]
        assert listing == json.loads((tmp_path / "a/manifest.json").read_bytes())["listing_sha256"]


def test_a_changed_number_is_a_changed_source(make_tree: MakeTree, tmp_path: Path) -> None:
    tree = tmp_path / "flat"
    tree.mkdir()
    for number, path in enumerate(sorted(make_tree(classes=1, each=4).rglob("*.jpg"))):
        path.rename(tree / f"{number}.jpg")
        (tree / f"{number}.cls").write_text("1")
    convert_dataset(tree, tmp_path / "pack", options(part=(0, 2)))
    times = (tree / "0.cls").stat()
    (tree / "0.cls").write_text("0")
    os.utime(tree / "0.cls", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(UsageError, match="source listing"):
        convert_dataset(tree, tmp_path / "pack", OPTIONS)


def test_the_recipe_of_imagenet_refuses_a_flat_val(make_tree: MakeTree, tmp_path: Path) -> None:
    """As Kaggle ships it. Its test has no labels anywhere, so that is warned of alone."""
    root = tmp_path / "ILSVRC" / "Data" / "CLS-LOC"
    root.mkdir(parents=True)
    make_tree("pictures", classes=2, each=4).rename(root / "train")
    for split in ("val", "test"):
        (root / split).mkdir()
        (root / split / "1.JPEG").write_bytes(next(root.rglob("*.jpg")).read_bytes())
    for place in (root, tmp_path):
        with pytest.raises(SourceError) as caught:
            convert_dataset(open_input("imagenet", src=place), tmp_path / "pack", OPTIONS)
        assert "val has no class folders, so its 1 pictures have no label" in str(caught.value)
        assert "valprep.sh" in caught.value.hint
    assert not (tmp_path / "pack").exists()
    (root / "val" / "001.class0").mkdir()
    (root / "val" / "1.JPEG").rename(root / "val" / "001.class0" / "1.JPEG")
    heard = _Heard()
    convert_dataset(
        open_input("imagenet", src=tmp_path), tmp_path / "pack", OPTIONS, reporter=heard
    )
    assert PackedDataset(tmp_path / "pack", "val", decode="bytes").targets.tolist() == [0]
    assert any("test has no class folders" in line for line in heard.warnings)


def test_far_times_are_no_hindrance(make_tree: MakeTree, tmp_path: Path) -> None:
    tree = make_tree("photos", classes=1, each=4)
    late = sorted(tree.rglob("*.jpg"))[0]
    os.utime(late, (1 << 34, 1 << 34))
    with tarfile.open(tmp_path / "photos.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for number, path in enumerate(sorted(tree.rglob("*.jpg"))):
            entry = archive.gettarinfo(path, f"photos/a/{path.name}")
            entry.mtime = (1 << 40, -(1 << 40), 1 << 34, -5)[number]
            with path.open("rb") as file:
                archive.addfile(entry, file)
    for name in ("photos", "photos.tar"):
        out = tmp_path / f"{name}-pack"
        convert_dataset(tmp_path / name, out, options(part=(0, 2)))
        assert convert_dataset(tmp_path / name, out, OPTIONS).manifest is not None
