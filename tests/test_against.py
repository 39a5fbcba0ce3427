from collections.abc import Callable
from pathlib import Path

import pytest

from packer.against import compare_source
from packer.convert import ConvertOptions, convert_dataset
from packer.input import open_input
from packer.manifest import Manifest, read_manifest
from packer.packing.batch import describe_batch, make_batch
from packer.packing.pool import Pool
from packer.reporting import Reporter

MakeTree = Callable[..., Path]


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
    convert_dataset(tree, tmp_path / "pack", ConvertOptions(resize="48", jobs=1, seed=3))
    return tmp_path / "pack"


def _compare(pack: Path, manifest: Manifest, reporter: Reporter | None = None) -> list[str]:
    pool = Pool(make_batch, "sequential", 1, describe_batch)
    source = open_input(pack.parent / "photos")
    return compare_source(pack, manifest, source, pool, reporter or Reporter())


def test_skipped_pictures_are_accounted_for_by_the_ledger(pack: Path) -> None:
    assert _compare(pack, read_manifest(pack)) == []
    (pack / "skipped.jsonl").write_text("")
    assert _compare(pack, read_manifest(pack)) == [
        f"{pack}: 001.class0/cut.jpg is neither in the pack nor in its skipped.jsonl"
    ]


def test_other_classes_are_told_at_once(pack: Path) -> None:
    (pack.parent / "photos" / "000.new").mkdir()
    [line] = _compare(pack, read_manifest(pack))
    assert "its classes are not those of" in line


def test_with_other_libraries_pictures_are_not_compared(pack: Path) -> None:
    manifest = read_manifest(pack)
    object.__setattr__(manifest, "libraries", {**manifest.libraries, "simplejpeg": "0.1"})
    ears = _Ears()
    first = pack.parent / "photos" / "001.class0" / "001_0001.jpg"
    first.write_bytes(first.with_name("001_0002.jpg").read_bytes())
    assert _compare(pack, manifest, ears) == []
    assert any("simplejpeg" in line and "not compared" in line for line in ears.warnings)


def test_another_seed_moves_slots(pack: Path) -> None:
    manifest = read_manifest(pack)
    object.__setattr__(manifest, "options", {**manifest.options, "seed": 4})
    assert any("has slot" in line for line in _compare(pack, manifest))
