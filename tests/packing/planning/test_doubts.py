from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from packer import sources
from packer.packing.planning.doubts import sidecars
from packer.packing.planning.labels import label_candidates
from packer.types import Sidecars

Warnings = Callable[..., list[str]]


@pytest.fixture
def warnings_of(tmp_path: Path) -> Warnings:
    """The warnings for a folder of files; a path that ends in "/" is an empty folder."""

    def scan(*paths: str, exclude: tuple[str, ...] = (), split: str | None = None) -> list[str]:
        for path in paths:
            full = tmp_path / "tree" / path
            if path.endswith("/"):
                full.mkdir(parents=True)
            else:
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_bytes(b"1")
        listing = sources.open_source(tmp_path / "tree").scan()
        return list(label_candidates(listing, exclude=exclude, split=split).warnings)

    return scan


@pytest.mark.parametrize(
    "paths",
    [
        ["a/1.jpg", "b/1.jpg"],
        ["a/1.jpg", "b/1.jpg", "README.md", "b/Thumbs.db", "LICENSE.txt", "a/.hidden.txt"],
        ["train/a/1.jpg", "val/a/1.jpg", "annotations/", "logs/x.log"],
        ["train/1.jpg", "plane/1.jpg", "ship/1.jpg"],  # a class that is called train
        ["trained/1.jpg", "value/1.jpg", "testament/1.jpg"],
        ["mask/1.jpg", "no_mask/1.jpg"],
        ["cat/train/1.jpg", "dog/deep/1.jpg"],
        ["cat/1.jpg", "cat/deep/1.jpg", "cat/other/1.jpg"],
        ["cat/deep/1.jpg", "cat/deep/2.jpg"],
        ["data/train/a/1.jpg", "data/val/a/1.jpg"],
        ["056.dog/1.jpg", "056.dog/greg/vision309/", "198.spider/1.jpg", "198.spider/RENAME2"],
    ],
)
def test_ordinary_layouts_are_not_warned_of(warnings_of: Warnings, paths: list[str]) -> None:
    assert warnings_of(*paths) == []


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (
            ["a/b/x/1.jpg", "a/b/y/1.jpg"],
            ["all pictures are of one class, a; if x, y are the classes, give the folder a/b"],
        ),
        (["a/x/1.jpg", "a/y/1.jpg"], ["if x, y are the classes, give the folder a as"]),
        (
            ["train/a/1.jpg", "val/a/1.jpg", "extra/1.jpg"],
            ["train, val look like splits", "extra hold pictures too", "--exclude-class extra"],
        ),
        (
            ["Train/a/1.jpg", "VAL/a/1.jpg", "test_images/1.jpg"],
            ["Train, VAL look like splits", "--exclude-class test_images"],
        ),
        (["train/a/1.jpg", "other/a/1.jpg"], ["train look like splits", "other hold pictures"]),
        (
            ["train2017/1.jpg", "val2017/1.jpg"],
            ["train2017, val2017 look like splits", "name them train, val and test"],
        ),
        (["train_images/1.jpg", "test_images/1.jpg"], ["look like splits"]),
    ],
)
def test_nearly_splits(warnings_of: Warnings, paths: list[str], says: list[str]) -> None:
    [line] = warnings_of(*paths)
    assert [text for text in says if text not in line] == []


def test_the_way_out_of_nearly_splits_works(warnings_of: Warnings) -> None:
    assert warnings_of("train/a/1.jpg", "val/a/1.jpg", "extra/1.jpg", exclude=("extra",)) == []


def test_pictures_beside_splits(warnings_of: Warnings) -> None:
    splits, strays = warnings_of("train/a/1.jpg", "val/a/1.jpg", "logo.png")
    assert "look like splits" in splits
    assert "(logo.png)" in splits
    assert strays == "1 picture outside of class folders left out: logo.png"


def test_splits_inside_of_classes(warnings_of: Warnings) -> None:
    [line] = warnings_of("cat/train/1.jpg", "cat/val/2.jpg", "dog/train/1.jpg", "dog/Test/2.jpg")
    assert line.startswith("2 class folders with folders inside that are named as splits")
    assert "cat, dog" in line


def test_samples_without_labels_are_counted(warnings_of: Warnings) -> None:
    [line] = warnings_of("1.jpg", "2.jpg", "3.jpg")
    assert line.startswith("no class folders: 3 samples have no label (-1)")


def test_a_flat_source_that_is_split_has_no_labels_once(warnings_of: Warnings) -> None:
    lines = warnings_of(*(f"{number}.jpg" for number in range(40)), split="train=0.5,val=0.5")
    assert len(lines) == 1
    assert lines[0].startswith("no class folders: 40 samples")


def test_splits_without_labels_are_named(warnings_of: Warnings) -> None:
    lines = warnings_of("train/a/1.jpg", "train/b/1.jpg", "val/1.jpg", "val/2.jpg", "test/3.jpg")
    assert [line.partition(";")[0] for line in lines] == [
        "val has no class folders: its 2 samples have no label (-1)",
        "test has no class folders: its 1 sample have no label (-1)",
    ]


def test_empty_class_folders_are_named_once(warnings_of: Warnings) -> None:
    empty = [f"e{number}/" for number in range(7)]
    [line] = warnings_of("a/1.jpg", "logs/run.txt", *empty)
    assert line.startswith("8 class folders without pictures")
    assert "e0, e1, e2, e3, e4 …" in line
    assert "--exclude-class e0" in line


def test_what_a_split_lacks_is_not_said_twice(warnings_of: Warnings) -> None:
    lines = warnings_of("train/a/1.jpg", "train/b/1.jpg", "train/none/", "val/a/1.jpg")
    assert len(lines) == 2
    assert lines[0].startswith("1 class folder without pictures")
    assert lines[1] == "val has no picture of 1 class: b"


def test_class_numbers_that_are_odd(warnings_of: Warnings, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "2.cls").write_text("two")
    (tmp_path / "tree" / "6.cls").write_text("5")
    lines = warnings_of("1.jpg", "1.seg.png", "1.cls", "2.jpg", "3.jpg", "4.cls", "6.jpg")
    assert lines == [
        "2 of 5 samples have no label (-1): their .cls files are not there or hold no number",
        "4 of the classes 0 to 5 have no picture: 0, 2, 3, 4",
        "1 .cls file that hold no number from 0 on: 2.cls",
        "1 .cls file without a picture of their name: 4.cls",
        "1 picture with the .cls file of another one, each a sample of its own: 1.seg.png",
    ]


@pytest.mark.parametrize(
    ("paths", "folder", "way"),
    [
        (["images/1.jpg", "masks/1.png"], "masks", "--exclude-class masks"),
        (["images/1.jpg", "mask/1.png"], "mask", "--exclude-class mask"),
        (["JPEGImages/1.jpg", "SegmentationClass/1.png"], "SegmentationClass", "--exclude-class"),
        (["train/images/1.jpg", "train/masks/1.png"], "train/masks", "--exclude-class masks"),
        (["cat/1.jpg", "cat/masks/1.png"], "cat/masks", "packer convert -"),
    ],
)
def test_masks(warnings_of: Warnings, paths: list[str], folder: str, way: str) -> None:
    [line] = warnings_of(*paths)
    assert line.startswith(f"{folder} holds 1 picture, each read as a sample")
    assert way in line


def test_masks_that_are_excluded_are_settled(warnings_of: Warnings) -> None:
    assert warnings_of("images/1.jpg", "masks/1.png", exclude=("masks",)) == []


@pytest.mark.parametrize("kind", ["metadata", "yolo", "coco", "voc", "table", "beside .txt"])
def test_a_line_a_kind_says_what_is_not_stored(kind: str) -> None:
    [line] = sidecars({kind: Sidecars(3, b"a/x\xff.txt")})
    assert "3 " in line
    assert os.fsdecode(b"a/x\xff.txt") in line
    assert "packer does not store" in line
    assert "PackWriter" in line


def test_what_dvc_has_not_fetched() -> None:
    [line] = sidecars({"dvc": Sidecars(2, b"train.dvc")})
    assert "2 folders" in line
    assert "dvc pull" in line
