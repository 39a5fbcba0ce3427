import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.input import Input, open_input, open_list
from packer.pack.manifest import Manifest, read_manifest
from packer.packing.shards.batch import describe_batch, make_batch
from packer.packing.workers.pool import Pool
from packer.reporting import Reporter
from packer.verify.against import SourceDifferences, compare_source
from packer.writer import PackWriter
from tests.fixtures import MakeTree


class _Ears(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def pack(tmp_path: Path, make_tree: MakeTree) -> Path:
    tree = make_tree(classes=2)
    (tree / "001.class0" / "cut.jpg").write_bytes(
        (tree / "001.class0" / "001_0001.jpg").read_bytes()[:-200]
    )
    options = ConvertOptions(resize="48", jobs=1, seed=3, split="train=0.7,val=0.3")
    convert_dataset(tree, tmp_path / "pack", options)
    return tmp_path / "pack"


def _compare(
    pack: Path,
    manifest: Manifest | None = None,
    reporter: Reporter | None = None,
    source: Input | None = None,
) -> SourceDifferences:
    pool = Pool(make_batch, "sequential", 1, describe_batch)
    source = source or open_input(pack.parent / "photos")
    return compare_source(
        pack, manifest or read_manifest(pack), source, pool, reporter or Reporter()
    )


def _named(found: SourceDifferences) -> dict[str, Any]:
    """What differs."""
    value = dataclasses.asdict(dataclasses.replace(found, pictures=0))
    return {name: entry for name, entry in value.items() if entry}


def test_the_same_source_has_no_difference(pack: Path) -> None:
    """Litter, and what was skipped, are none."""
    tree = pack.parent / "photos"
    (tree / ".DS_Store").write_bytes(b"")
    (tree / "001.class0" / "notes.txt").write_text("")
    found = _compare(pack)
    assert not found.any and not found.content
    assert found.pictures == 17


def test_one_added_picture_is_one_missing(pack: Path) -> None:
    """It moves all others to other places, which is no difference."""
    tree = pack.parent / "photos"
    shutil.copy(tree / "001.class0" / "001_0001.jpg", tree / "001.class0" / "new.jpg")
    found = _compare(pack)
    assert _named(found) == {"missing": ("001.class0/new.jpg",)}
    assert not found.content
    assert found.pictures == 17


def test_a_removed_picture_is_extra_even_if_it_was_skipped(pack: Path) -> None:
    tree = pack.parent / "photos"
    (tree / "002.class1" / "002_0001.jpg").unlink()
    (tree / "001.class0" / "cut.jpg").unlink()
    found = _compare(pack)
    assert _named(found) == {"extra": ("001.class0/cut.jpg", "002.class1/002_0001.jpg")}


def test_changed_pictures_are_found_beside_added_ones(pack: Path) -> None:
    """Another picture, one that is whole now, one that is no more."""
    folder = pack.parent / "photos" / "001.class0"
    first, second, third = sorted(folder.glob("001_*.jpg"))[:3]
    shutil.copy(second, folder / "new.jpg")
    shutil.copy(second, first)
    shutil.copy(third, folder / "cut.jpg")
    third.write_bytes(third.read_bytes()[:-200])
    found = _compare(pack)
    assert found.content
    assert found.missing == ("001.class0/new.jpg",)
    assert sorted(found.changed) == [
        "001.class0/001_0001.jpg",
        "001.class0/001_0003.jpg",
        "001.class0/cut.jpg",
    ]


def test_a_new_class_says_that_labels_have_other_numbers(pack: Path) -> None:
    tree = pack.parent / "photos"
    (tree / "000.new").mkdir()
    shutil.copy(tree / "001.class0" / "001_0001.jpg", tree / "000.new" / "a.jpg")
    found = _compare(pack)
    assert _named(found) == {
        "missing": ("000.new/a.jpg",),
        "new_classes": ("000.new",),
        "renumbered": 16,
    }
    assert not found.content


def test_a_class_that_went(pack: Path) -> None:
    shutil.rmtree(pack.parent / "photos" / "002.class1")
    found = _compare(pack)
    assert found.old_classes == ("002.class1",)
    assert len(found.extra) == 8
    assert found.renumbered == 0


def test_excluded_classes_are_no_difference(tmp_path: Path, make_tree: MakeTree) -> None:
    options = ConvertOptions(resize="48", jobs=1, exclude_classes=("002.class1",))
    convert_dataset(make_tree(), tmp_path / "pack", options)
    assert not _compare(tmp_path / "pack").any
    shutil.copy(
        tmp_path / "photos" / "001.class0" / "001_0001.jpg",
        tmp_path / "photos" / "002.class1" / "new.jpg",
    )
    assert not _compare(tmp_path / "pack").any


def test_a_list_is_compared_by_path_too(pack: Path) -> None:
    tree = pack.parent / "photos"
    names = sorted(str(path) for path in tree.rglob("*.jpg"))
    whole = open_list("\n".join(names).encode(), top=tree)
    assert not _compare(pack, source=whole).any
    some = open_list("\n".join(names[1:]).encode(), top=tree)
    assert _named(_compare(pack, source=some)) == {"extra": ("001.class0/001_0001.jpg",)}


def test_a_pack_from_code_has_no_places(tmp_path: Path, make_tree: MakeTree) -> None:
    """Its samples are in any order, in any split; classes may have other numbers."""
    tree = make_tree(classes=2)
    paths = sorted(tree.rglob("*.jpg"), reverse=True)
    options = ConvertOptions(resize="48")
    classes = ("002.class1", "001.class0")
    with PackWriter(tmp_path / "pack", classes=classes, options=options) as writer:
        for number, path in enumerate(paths):
            writer.write(
                image=path.read_bytes(),
                label=classes.index(path.parent.name),
                key=str(path.relative_to(tree)),
                split="train" if number % 3 else "other",
            )
        writer.write(image=paths[0].read_bytes(), label=0, key="more.jpg")
    found = _compare(tmp_path / "pack")
    assert _named(found) == {"extra": ("more.jpg",), "renumbered": 16}
    assert found.pictures == 16


def test_a_sample_of_another_class_is_content(tmp_path: Path, make_tree: MakeTree) -> None:
    tree = make_tree(classes=2)
    path = sorted(tree.rglob("*.jpg"))[0]
    options = ConvertOptions(resize="48")
    with PackWriter(
        tmp_path / "pack", classes=("001.class0", "002.class1"), options=options
    ) as writer:
        writer.write(image=path.read_bytes(), label=1, key=str(path.relative_to(tree)))
    found = _compare(tmp_path / "pack")
    assert found.relabelled == ("001.class0/001_0001.jpg",)
    assert found.content


def test_an_empty_ledger_shows_what_is_not_accounted_for(pack: Path) -> None:
    (pack / "skipped.jsonl").write_text("")
    assert _named(_compare(pack)) == {"missing": ("001.class0/cut.jpg",)}


def test_with_other_libraries_pictures_are_not_compared(pack: Path) -> None:
    manifest = read_manifest(pack)
    object.__setattr__(manifest, "libraries", {**manifest.libraries, "simplejpeg": "0.1"})
    ears = _Ears()
    first = pack.parent / "photos" / "001.class0" / "001_0001.jpg"
    first.write_bytes(first.with_name("001_0002.jpg").read_bytes())
    found = _compare(pack, manifest, ears)
    assert not found.any
    assert found.pictures == 0
    assert any("simplejpeg" in line and "not compared" in line for line in ears.warnings)


def test_another_seed_moves_samples(pack: Path) -> None:
    manifest = read_manifest(pack)
    object.__setattr__(manifest, "options", {**manifest.options, "seed": 4})
    assert len(_compare(pack, manifest).relabelled) > 8
