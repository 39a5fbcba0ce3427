"""Output folders that are symbolic links, as from a small home folder to scratch space."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import InUse, OutputError
from packer.merge import merge_pack
from packer.packing.lock import Lock
from packer.stage import stage_pack
from packer.writer import PackWriter
from tests.fixtures import MakeTree

OPTIONS = ConvertOptions(resize="48", batch_size=4, shard_size=16_000, jobs=1)


@pytest.fixture(params=["there", "missing"])
def link(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A link by way of another one to a folder that is there, or is not there yet."""
    (tmp_path / "home").mkdir()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "home" / "pack").symlink_to("../between")
    (tmp_path / "between").symlink_to(tmp_path / "scratch" / "pack")
    if request.param == "there":
        (tmp_path / "scratch" / "pack").mkdir()
    return tmp_path / "home" / "pack"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_pack_lies_where_the_link_leads(
    tmp_path: Path, make_tree: MakeTree, link: Path
) -> None:
    tree = make_tree(classes=2, each=4)
    made = convert_dataset(tree, link, OPTIONS)
    assert (made.out, link.is_symlink()) == (link, True)
    for quality in (50, 60):
        made = convert_dataset(tree, link, replace(OPTIONS, quality=quality), force=True)
        assert made.moved is not None
        assert made.moved.parent == tmp_path / "scratch"
        assert (made.out, link.is_symlink()) == (link, True)
        assert made.manifest is not None
    assert _names(tmp_path / "home") == ["pack"]
    assert len(_names(tmp_path / "scratch")) == 3
    assert (tmp_path / "scratch" / "pack" / "manifest.json").exists()
    again = convert_dataset(tree, tmp_path / "scratch" / "pack", replace(OPTIONS, quality=60))
    assert again.was_complete


def test_parts_through_the_link_and_through_the_folder_are_one_pack(
    tmp_path: Path, make_tree: MakeTree, link: Path
) -> None:
    tree, real = make_tree(classes=2, each=20), tmp_path / "scratch" / "pack"
    convert_dataset(tree, link, replace(OPTIONS, part=(0, 2)))
    convert_dataset(tree, real, replace(OPTIONS, part=(1, 2)))
    assert merge_pack(link).manifest.counts["packed"] == 40
    assert _names(tmp_path / "home") == ["pack"]


def test_a_lock_through_the_link_is_one_through_the_folder(tmp_path: Path, link: Path) -> None:
    real = tmp_path / "scratch" / "pack" / ".packer"
    real.mkdir(parents=True)
    with Lock(link / ".packer", None), pytest.raises(InUse, match="in use by"), Lock(real, None):
        pass


def test_packs_from_code_and_staged_copies(tmp_path: Path, link: Path) -> None:
    with PackWriter(link, classes=["one"]) as writer:
        writer.write(image=np.zeros((8, 8, 3), np.uint8), label=0, key="a")
    assert (tmp_path / "scratch" / "pack" / "manifest.json").exists()
    (tmp_path / "home" / "disk").symlink_to(tmp_path / "disk")
    copy = stage_pack(link, tmp_path / "home" / "disk").path
    assert (tmp_path / "disk" / copy.name / "manifest.json").exists()


def test_the_command_prints_the_path_as_it_was_given(make_tree: MakeTree, link: Path) -> None:
    tree = make_tree(classes=1, each=2)
    for more in ([], ["--force"]):
        found = subprocess.run(
            [sys.executable, "-m", "packer", "convert", tree, "-o", link.name, "-j1", *more],
            cwd=link.parent, capture_output=True, text=True, check=True, timeout=100,
        )  # fmt: skip
        assert found.stdout == f"{link}\n"


def test_a_circle_of_links_and_a_link_to_a_file(tmp_path: Path, make_tree: MakeTree) -> None:
    tree = make_tree(classes=1, each=2)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("file")
    for force in (False, True):
        with pytest.raises(OutputError, match="one: Too many levels of symbolic links"):
            convert_dataset(tree, tmp_path / "one", OPTIONS, force=force)
    with pytest.raises(OutputError, match="link: a file is in the way"):
        convert_dataset(tree, tmp_path / "link", OPTIONS)
    assert (tmp_path / "file").read_text() == "precious"
    assert os.path.islink(tmp_path / "link")
