"""Files beside pictures; test_agreement.py tests which files are found."""

from __future__ import annotations

import pytest

from packer.sources import _sidecars
from packer.sources._sidecars import SidecarFinder, stem


def finder_of(*paths: bytes) -> SidecarFinder:
    finder = SidecarFinder()
    for path in paths:
        finder.look_at(path, path[path.rfind(b".") :].lower())
    return finder


@pytest.mark.parametrize(
    ("path", "expected"),
    [(b"a/1.jpg", b"a/1"), (b"a.b/1.seg.png", b"a.b/1"), (b"a.b/c", b"a.b/c"), (b"x", b"x")],
)
def test_the_key_of_a_path(path: bytes, expected: bytes) -> None:
    assert stem(path) == expected


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"labels/train/1.txt", "yolo"),
        (b"a/Labels/1.TXT", "yolo"),
        (b"annotations/instances_val2017.json", "coco"),
        (b"instances_default.json", "coco"),
        (b"train/_annotations.coco.json", "coco"),
        (b"VOC2012/Annotations/1.xml", "voc"),
        (b"train/metadata.jsonl", "metadata"),
        (b"METADATA.csv", "metadata"),
        (b"labels.tsv", "table"),
        (b"train.parquet", "table"),
    ],
)
def test_kinds_are_known_by_names(path: bytes, kind: str) -> None:
    assert list(finder_of(path).found([b"a/1.jpg"])) == [kind]


@pytest.mark.parametrize(
    "path", [b"README.txt", b"a/labels.txt", b"a/info.json", b"a/x.db", b"a/x.md", b"a/2.txt"]
)
def test_other_files_are_nothing(path: bytes) -> None:
    assert finder_of(path).found([b"a/1.jpg", b"a/22.jpg"]) == {}


def test_no_more_than_some_paths_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond, files count as those that are kept do."""
    monkeypatch.setattr(_sidecars, "_KEPT", 10)
    finder = finder_of(b"README.txt", *(b"a/%d.txt" % number for number in range(50)))
    found = finder.found(sorted(b"a/%d.jpg" % number for number in range(50)))
    assert found["beside .txt"].files == 50
    assert sum(map(len, finder._kept.values())) == 10


def test_a_folder_can_be_forgotten() -> None:
    finder = finder_of(b"a/1.txt", b"a/1.cls", b"a/1.jpg.dvc")
    before = finder.mark()
    for path in (b"b/1.txt", b"b/1.csv", b"b/1.cls", b"b/x.dvc"):
        finder.look_at(path, path[path.rfind(b".") :])
    finder.forget_since(before)
    assert finder.found([b"a/1.jpg", b"b/1.jpg"]) == finder_of(b"a/1.txt").found([b"a/1.jpg"])
    assert (finder.numbers, finder.pointers) == ([b"a/1.cls"], [b"a/1.jpg.dvc"])
