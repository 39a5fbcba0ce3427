from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import UsageError
from packer.pack.manifest import read_manifest
from packer.reporting import Reporter
from packer.stage import StageOptions, stage_pack
from packer.verify import VerifyOptions, verify_pack
from tests.fixtures import Digest, MakeTree


class Ear(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


#: Converts a small folder with these options.
MakePack = Callable[..., Path]


@pytest.fixture
def make_pack(tmp_path: Path, make_tree: MakeTree) -> MakePack:
    def make(**options: Any) -> Path:
        chosen = ConvertOptions(
            resize="48", batch_size=4, shard_size=8_000, jobs=1, backend="sequential", **options
        )
        convert_dataset(make_tree(classes=2, each=20), tmp_path / "pack", chosen)
        return tmp_path / "pack"

    return make


def sequential(path: Path) -> list[str]:
    return verify_pack(path, VerifyOptions(decode=True, backend="sequential")).damage


def test_what_a_converted_pack_has_is_staged(
    make_pack: MakePack, tmp_path: Path, digest_tree: Digest
) -> None:
    """Companion files for other readers and the ledger, too, byte for byte."""
    pack = make_pack(split="train=0.7,val=0.3")
    staged = stage_pack(pack, tmp_path / "disk")
    assert digest_tree(staged.path) == digest_tree(pack)
    assert staged.samples == 40
    assert staged.size == sum(path.stat().st_size for path in pack.glob("*.tar"))
    assert staged.shards == len(list(pack.glob("*.tar")))


def test_an_excerpt_has_what_a_pack_has(
    make_pack: MakePack, tmp_path: Path, digest_tree: Digest
) -> None:
    pack = make_pack(split="train=0.7,val=0.3")
    staged = stage_pack(pack, tmp_path / "disk", StageOptions(("train",), 0.5))
    manifest = read_manifest(staged.path)
    assert list(manifest.splits) == ["train"]
    assert 0 < staged.samples < read_manifest(pack).splits["train"].samples
    assert sequential(staged.path) == []
    whole, excerpt = digest_tree(pack), digest_tree(staged.path)
    own = {
        "manifest.json",
        "README.md",
        "train.index",
        "train.wids.json",
        "_info.json",
        "skipped.jsonl",
    }
    assert own < excerpt.keys()
    rest = {name: digest for name, digest in excerpt.items() if name not in own}
    assert rest.items() <= whole.items()
    assert {Path(name).suffix for name in rest} == {".tar", ".idx", ".index"}


def test_a_fraction_of_a_sorted_pack_is_warned_of(make_pack: MakePack, tmp_path: Path) -> None:
    pack = make_pack(order="sorted")
    ear = Ear()
    stage_pack(pack, tmp_path / "disk", StageOptions(fraction=0.5), reporter=ear)
    assert len(ear.warnings) == 1
    assert "sorted" in ear.warnings[0]
    stage_pack(pack, tmp_path / "disk", reporter=ear)
    assert len(ear.warnings) == 1


def test_what_cannot_be_is_said(make_pack: MakePack, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no split 'val'"):
        stage_pack(make_pack(), tmp_path / "disk", StageOptions(("val",)))
    assert not (tmp_path / "disk").exists()
