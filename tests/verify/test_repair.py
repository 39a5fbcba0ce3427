from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from packer import registry
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import InUse, UsageError
from packer.input import open_input
from packer.pack.manifest import read_manifest
from packer.packing.lock import Lock
from packer.packing.shards.shard import WORK_FOLDER
from packer.reporting import Reporter
from packer.verify import VerifyOptions, VerifyResult, verify_pack
from packer.verify.subset import Subset
from packer.writer import PackWriter
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


def test_with_its_source_everything_comes_back(
    pack: Path, options: ConvertOptions, digest_tree: Digest
) -> None:
    """Lost or damaged, each file alone and all together; the source may have moved."""
    right = digest_tree(pack)
    moved = pack.parent / "moved"
    (pack.parent / "photos").rename(moved)
    given = VerifyOptions(jobs=1, backend="sequential", repair=True, against=open_input(moved))
    names = list(read_manifest(pack).all_files())
    for lost in (*([name] for name in names), names):
        for number, name in enumerate(lost):
            if number % 2:
                _spoil(pack / name)
            else:
                (pack / name).unlink()
        result = verify_pack(pack, given)
        assert result.repair is not None
        assert set(result.repair.restored) >= set(lost) - {"train.index"}
        assert result.repair.missing == ()
        for old in pack.glob("*.old-*"):
            old.unlink()
        assert digest_tree(pack) == right, lost
    assert verify_pack(pack, given).against is not None  # nothing was damaged: it was compared


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("gone", "another source listing .* is missing"),
        ("more", "another source listing .* is missing"),
        ("same size", "a picture of the source changed"),
    ],
)
def test_from_a_source_that_changed_nothing_is_made(pack: Path, change: str, words: str) -> None:
    photos = pack.parent / "photos"
    pictures = sorted(photos.rglob("*_*.jpg"))
    if change == "gone":
        pictures[0].unlink()
    elif change == "more":
        shutil.copy(pictures[0], pictures[0].with_name("more.jpg"))
    else:
        for path in pictures:
            status = path.stat()
            data = path.read_bytes()
            path.write_bytes(data[:-500] + data[-500:-2][::-1] + data[-2:])
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    shards = sorted(path for path in pack.iterdir() if path.name.startswith("train-000000."))
    for path in shards:
        path.unlink()
    given = VerifyOptions(jobs=1, backend="sequential", repair=True, against=open_input(photos))
    with pytest.raises(UsageError, match=words) as caught:
        verify_pack(pack, given)
    assert (change == "same size") != ("as it was when the pack was made" in caught.value.hint)
    assert not any(path.exists() for path in shards)


def test_nothing_is_said_to_be_made_that_only_the_source_can_give(pack: Path) -> None:
    (pack / "skipped.jsonl").unlink()
    reporter = Lines()
    options = VerifyOptions(jobs=1, backend="sequential", repair=True)
    result = verify_pack(pack, options, reporter=reporter)
    assert result.repair is not None
    assert result.repair.missing == ("skipped.jsonl",)
    assert reporter.lines == []


def test_an_empty_ledger_needs_no_source(tmp_path: Path, make_tree: MakeTree) -> None:
    options = ConvertOptions(jobs=1, backend="sequential")
    convert_dataset(make_tree(classes=1, each=2), tmp_path / "pack", options)
    (tmp_path / "pack" / "skipped.jsonl").unlink()
    result = _repair(tmp_path / "pack")
    assert result.repair is not None
    assert result.repair.restored == ("skipped.jsonl",)
    assert (tmp_path / "pack" / "skipped.jsonl").read_bytes() == b""


def test_a_pack_of_code_has_no_source(tmp_path: Path, make_tree: MakeTree) -> None:
    photos = make_tree(classes=1, each=2)
    with PackWriter(tmp_path / "pack", classes=["a"]) as writer:
        for path in sorted(photos.rglob("*.jpg")):
            writer.write(image=path, label=0, key=path.name)
    (tmp_path / "pack" / "train-000000.tar").unlink()
    given = VerifyOptions(jobs=1, backend="sequential", repair=True, against=open_input(photos))
    with pytest.raises(UsageError) as caught:
        verify_pack(tmp_path / "pack", given)
    assert caught.value.hint == "copy it again, or write the pack anew"


class Lines(Reporter):
    """Keeps notes and warnings."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None:
        self.lines.append(text)


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
