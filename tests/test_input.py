import os
import tarfile
from pathlib import Path

import pytest

from packer.errors import SourceError
from packer.input import open_input
from tests.fixtures import MakeTree


def test_a_recipe_wins_over_a_folder_of_its_name(
    tmp_path: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree("sample")
    monkeypatch.chdir(tmp_path)
    assert open_input("sample").recipe is not None
    folder = open_input("./sample")
    assert folder.recipe is None
    assert folder.name == "sample"
    assert folder.location == os.fspath(tmp_path / "sample")


def test_names_of_folders_and_archives(tmp_path: Path, make_tree: MakeTree) -> None:
    tree = make_tree("my.photos")
    with tarfile.open(tmp_path / "my.photos.tar", "w") as archive:
        archive.add(tree, "my.photos")
    assert open_input(tree).name == "my.photos"
    assert open_input(tmp_path / "my.photos.tar").name == "my.photos"


def test_counts_that_differ_from_the_recipes_are_told_by_how_much(
    tmp_path: Path, make_tree: MakeTree
) -> None:
    tree = make_tree("256_ObjectCategories", classes=2, each=3)
    given = open_input("caltech256", src=tree)
    assert list(given.expectations(6, 2)) == [
        "caltech256: 6 images, 30601 fewer than the expected 30607",
        "caltech256: 2 classes, 255 fewer than the expected 257",
    ]
    assert list(given.expectations(30607, None)) == []
    assert given.display_name("001.ak47") == "ak47"
    assert given.split == "train=0.8,val=0.2"


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"no such folder, archive or recipe.*'caltech256'"):
        open_input("caltech25")
    for name in ("caltech101", "flowers"):
        with pytest.raises(SourceError) as caught:
            open_input(name)
        assert caught.value.message == f"{name}: no such folder, archive or recipe"
        assert caught.value.hint == "packer's recipes: caltech256, folder, imagenet, sample"
    with pytest.raises(SourceError, match="no recipe, so --src has no meaning"):
        open_input("./photos", src=tmp_path)
    (tmp_path / "notes.md").write_text("text")
    with pytest.raises(SourceError, match="not a folder"):
        open_input("./notes.md")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://example.org/photos.tar", "does not download"),
        ("s3://bucket/photos/", "does not download"),
        ("HTTP://example.org", "packer fetch RECIPE"),
        ("hf://datasets/x.tar", "caltech256"),
        ("file:///data/photos", "give the path alone: /data/photos"),
    ],
)
def test_addresses_are_refused(address: str, said: str) -> None:
    for source, src in ((address, None), ("caltech256", address)):
        with pytest.raises(SourceError) as caught:
            open_input(source, src=src)
        assert said in str(caught.value)


def test_names_are_those_of_the_folders_that_paths_lead_to(
    tmp_path: Path, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree("flowers")
    inner = tree / "001.class0"
    (tmp_path / "link").symlink_to(tree)
    (tmp_path / "deep").symlink_to(inner)
    monkeypatch.chdir(inner)
    for text in ("..", "../.", "../", f"{tree}/", f"{tree}/.", f"{inner}/..", "../../flowers"):
        assert open_input(text).name == "flowers"
    assert open_input(".").name == "001.class0"
    assert open_input(tmp_path / "link").name == "link"
    assert open_input(f"{tmp_path}/deep/..").name == "flowers"
    assert open_input("/").name == ""
