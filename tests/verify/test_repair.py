from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from packer import registry
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import InUse, UsageError
from packer.pack.manifest import read_manifest
from packer.packing.lock import Lock
from packer.packing.shards.shard import WORK_FOLDER
from packer.verify import VerifyOptions, VerifyResult, verify_pack
from packer.verify.subset import Subset
from tests.fixtures import Digest, MakeTree


@pytest.fixture(params=registry.names("formats"))
def options(request: pytest.FixtureRequest) -> ConvertOptions:
    return ConvertOptions(
        resize="48",
        batch_size=4,
        shard_size=8_000,
        jobs=1,
        format=request.param,
        backend="sequential",
    )


@pytest.fixture
def pack(tmp_path: Path, make_tree: MakeTree, options: ConvertOptions) -> Path:
    (make_tree(classes=2, each=6) / "001.class0" / "bad.jpg").write_bytes(b"no picture")
    convert_dataset(tmp_path / "photos", tmp_path / "pack", options)
    return tmp_path / "pack"


def _repair(pack: Path) -> VerifyResult:
    options = VerifyOptions(jobs=1, backend="sequential", repair=True)
    return verify_pack(pack, options)


def _spoil(path: Path) -> bytes:
    """Change one byte in the middle; the bytes as they are then."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return bytes(data)


def test_each_kind_of_file_comes_back_byte_by_byte(
    pack: Path, options: ConvertOptions, digest_tree: Digest
) -> None:
    """Two runs, one of verify and the same one of convert; nothing is removed."""
    right = digest_tree(pack)
    for name in read_manifest(pack).all_files():
        path = pack / name
        spoiled = _spoil(path)
        result = _repair(pack)
        assert any(str(path) in line for line in result.damage), name
        assert result.repair is not None
        aside = list(pack.glob(f"{name}.old-*"))
        assert [old.read_bytes() for old in aside] == [spoiled], name
        if result.repair.missing:
            assert name in result.repair.missing
            convert_dataset(pack.parent / "photos", pack, options)
        else:
            assert result.repair.restored == (name,)
        for old in aside:
            old.unlink()
        assert digest_tree(pack) == right, name
    assert verify_pack(pack, VerifyOptions(decode=True, jobs=1)).damage == []


def test_only_what_needs_the_source_is_left_missing(pack: Path) -> None:
    """A shard and the ledger come from it; what else is damaged is made again by convert, too."""
    manifest = read_manifest(pack)
    shard = manifest.splits["train"].shards[0].name
    _spoil(pack / shard)
    result = _repair(pack)
    assert result.repair is not None
    assert result.repair.missing == (shard,)
    assert not (pack / shard).exists()
    assert "missing" in verify_pack(pack, VerifyOptions(jobs=1)).damage[0]


def test_a_link_or_a_file_of_another_size_is_moved_too(
    pack: Path, tmp_path: Path, digest_tree: Digest
) -> None:
    right = digest_tree(pack)
    victim = tmp_path / "private"
    victim.write_bytes(b"secret")
    index = pack / "train.index"
    index.unlink()
    index.symlink_to(victim)
    result = _repair(pack)
    assert result.repair is not None
    assert result.repair.restored == ("train.index",)
    assert victim.read_bytes() == b"secret"
    for old in pack.glob("*.old-*"):
        old.unlink()
    assert digest_tree(pack) == right


def test_a_whole_pack_is_left_alone(pack: Path, digest_tree: Digest) -> None:
    before = digest_tree(pack)
    assert _repair(pack).repair is None
    assert digest_tree(pack) == before


def test_nothing_is_moved_while_another_run_is_at_work(pack: Path) -> None:
    _spoil(pack / "train.index")
    (pack / WORK_FOLDER).mkdir()
    with Lock(pack / WORK_FOLDER, None), pytest.raises(InUse):
        _repair(pack)
    assert (pack / "train.index").exists()
    shutil.rmtree(pack / WORK_FOLDER)


@pytest.mark.parametrize(
    "other", [{"sample": Subset(0.5)}, {"minutes": 1.0}], ids=["sample", "minutes"]
)
def test_it_needs_the_whole_pack(other: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="looks at the whole pack"):
        VerifyOptions(repair=True, **other)  # type: ignore[arg-type]
