"""Lost files of a complete pack are made again by the same command, with the same bytes."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packer import registry
from packer.convert import ConvertOptions, ConvertResult, convert_dataset
from packer.errors import DamageError, MissingShards, OutputError, UsageError
from packer.merge import merge_pack
from packer.pack.manifest import read_manifest
from packer.packing.restoring import describe_losses
from packer.reader import PackedDataset
from packer.reporting import Reporter
from packer.verify import VerifyOptions, verify_pack

OPTIONS = ConvertOptions(
    resize="24", batch_size=4, shard_size=1_000, split="train=0.7,val=0.3", jobs=1
)


class _Ears(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.said.append(text)


@dataclasses.dataclass
class Packed:
    """A pack, its source, and its files as they were when it was made."""

    source: Path
    out: Path
    options: ConvertOptions
    before: dict[str, bytes]

    def again(self, reporter: Reporter | None = None, **changes: object) -> ConvertResult:
        options = dataclasses.replace(self.options, **changes)  # type: ignore[arg-type]
        return convert_dataset(self.source, self.out, options, reporter=reporter)

    def now(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.out.iterdir() if path.is_file()}

    def shard(self, number: int) -> Path:
        shard = read_manifest(self.out).splits["train"].shards[number]
        return self.out / shard.name


@pytest.fixture
def packed(tmp_path: Path, make_tree: Callable[..., Path]) -> Callable[..., Packed]:
    """Makes a pack of some shards whose source has two pictures that cannot be stored."""

    def make(format_name: str = "tar", **changes: object) -> Packed:
        source = make_tree(classes=2, each=20, size=24)
        for number in (3, 30):
            path = sorted(source.rglob("*.jpg"))[number]
            path.write_bytes(path.read_bytes()[:-100])
        options = dataclasses.replace(OPTIONS, format=format_name, **changes)  # type: ignore[arg-type]
        convert_dataset(source, tmp_path / "pack", options)
        made = Packed(source, tmp_path / "pack", options, {})
        made.before = made.now()
        assert len(read_manifest(made.out).splits["train"].shards) > 2
        assert made.before["skipped.jsonl"].count(b"\n") == 2
        return made

    return make


@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_any_files_are_made_again(packed: Callable[..., Packed], format_name: str) -> None:
    """One at a time, and many at random, missing or of another size."""
    pack = packed(format_name)
    draw = random.Random(0)
    names = sorted(pack.before.keys() - {"manifest.json"})
    single = [
        f"train-000001.{registry.load('formats', format_name).EXTENSION}",
        "train-000001.index",
        "train.index",
        "skipped.jsonl",
        "README.md",
    ]
    for lost in (*([name] for name in single), names, *(draw.sample(names, 5) for _ in range(4))):
        moved = []
        for name in lost:
            (pack.out / name).unlink()
            if lost != names and draw.random() < 0.5:
                content = draw.choice([pack.before[name][:-1], pack.before[name] + b"x"])
                (pack.out / name).write_bytes(content)
                moved.append(content)
        ears = _Ears()
        result = pack.again(ears)
        assert sorted(result.restored) == sorted(lost) and not result.was_complete
        assert "\n".join(ears.said).count(" is ") >= 1
        now = pack.now()
        asides = [now.pop(name) for name in list(now) if ".old-" in name]
        assert sorted(asides) == sorted(moved)  # kept, under names that say so
        assert now == pack.before
        assert not (pack.out / ".packer").exists()
        for path in pack.out.glob("*.old-*"):
            path.unlink()
    assert pack.again().was_complete
    assert verify_pack(pack.out, VerifyOptions(decode=True, backend="sequential")).damage == []


def test_what_is_made_again_is_named(packed: Callable[..., Packed]) -> None:
    pack, ears = packed(), _Ears()
    pack.shard(1).unlink()
    os.truncate(pack.shard(0), 100)
    pack.again(ears)
    [first] = [line for line in ears.said if "not whole" in line]
    assert "train-000001.tar is missing" in first
    assert "train-000000.tar is cut short (100 of" in first
    assert any("moved train-000000.tar to train-000000.tar.old-" in line for line in ears.said)
    assert describe_losses(dict.fromkeys("abcdefg", "missing")).endswith("e is missing, and 2 more")


def test_files_that_are_there_are_not_touched(packed: Callable[..., Packed]) -> None:
    pack = packed()
    stats = {path.name: path.stat() for path in pack.out.iterdir()}
    pack.shard(1).unlink()
    pack.again()
    changed = [
        path.name
        for path in pack.out.iterdir()
        if (path.stat().st_ino, path.stat().st_mtime_ns)
        != (stats[path.name].st_ino, stats[path.name].st_mtime_ns)
    ]
    assert changed == ["train-000001.tar"]


def test_a_changed_source_is_refused_and_named(packed: Callable[..., Packed]) -> None:
    """Of the same size, as another size is seen in the listing."""
    pack = packed()
    for path in pack.source.rglob("*.jpg"):
        data = bytearray(path.read_bytes())
        data[-40:-30] = bytes(10)
        path.write_bytes(data)
    pack.shard(1).unlink()
    with pytest.raises(UsageError, match=r"train-000001\.tar: made again.*picture of the source"):
        pack.again()
    assert not pack.shard(1).exists()
    assert list(pack.out.glob(".packer/*.tmp")) == []
    (pack.source / "001.class0" / "new.jpg").write_bytes(b"x")
    with pytest.raises(
        UsageError, match=r"another source listing .*; train-000001\.tar is missing"
    ):
        pack.again()


def test_other_libraries_are_refused_and_named(
    packed: Callable[..., Packed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what comes out the same with them is right."""
    pack = packed()
    versions = {**read_manifest(pack.out).libraries, "simplejpeg": "0.1"}
    del versions["packer"]
    monkeypatch.setattr("packer.imaging.libraries.versions", lambda: versions)
    pack.shard(1).unlink()
    ears = _Ears()
    pack.again(ears)
    assert any("made with simplejpeg" in line for line in ears.said)
    assert pack.now() == pack.before
    pack.shard(1).unlink()
    for path in pack.source.rglob("*.jpg"):  # as another decoder's pixels would
        data = bytearray(path.read_bytes())
        data[-40:-30] = bytes(10)
        path.write_bytes(data)
    with pytest.raises(UsageError, match=r'libraries: simplejpeg ".*" instead of "0.1"'):
        pack.again()


def test_a_repaired_picture_does_not_get_into_the_ledger(packed: Callable[..., Packed]) -> None:
    pack = packed()
    times = {path: path.stat() for path in pack.source.rglob("*.jpg")}
    (pack.out / "skipped.jsonl").unlink()
    first = sorted(times)[3]
    size = first.stat().st_size
    whole = sorted(times)[4].read_bytes()[: size - 2]
    first.write_bytes(whole + bytes(size - len(whole)))
    with pytest.raises(UsageError, match=r"skipped\.jsonl: made again, it is not the file"):
        pack.again()


@pytest.mark.parametrize("changed", [{"max_skipped": 0}, {"on_error": "fail"}], ids=str)
def test_pictures_that_were_skipped_before_are_skipped_again(
    packed: Callable[..., Packed], changed: dict[str, Any]
) -> None:
    """Whatever is asked for now: they are in the ledger."""
    pack = packed()
    for path in pack.out.glob("*.tar"):
        path.unlink()
    pack.again(**changed)
    assert pack.now() == pack.before


def test_parts_make_their_own_shards(packed: Callable[..., Packed]) -> None:
    pack = packed()
    for path in (*pack.out.glob("*.tar"), pack.out / "train.index", pack.out / "skipped.jsonl"):
        path.unlink()
    count = len(list(pack.out.glob("*-0*.index")))
    first = pack.again(part=(0, 2))
    assert (first.manifest, first.missing) == (None, count // 2)
    assert len(list(pack.out.glob("*.tar"))) == count - count // 2
    with pytest.raises(MissingShards, match="is missing") as caught:
        merge_pack(pack.out)
    assert len(caught.value.shards) == count // 2
    second = pack.again(part=(1, 2))
    assert second.manifest == read_manifest(pack.out)
    assert pack.now() == pack.before
    assert not (pack.out / ".packer").exists()


def test_merge_makes_again_what_needs_no_source(packed: Callable[..., Packed]) -> None:
    pack = packed()
    shutil.rmtree(pack.source)
    for name in ("train.index", "val-000000.index", "README.md", "_info.json", "val-000000.idx"):
        (pack.out / name).unlink()
    result = merge_pack(pack.out)
    assert len(result.restored) == 5
    assert pack.now() == pack.before
    assert merge_pack(pack.out).was_complete
    (pack.out / "skipped.jsonl").unlink()
    with pytest.raises(MissingShards, match=r"skipped\.jsonl is missing"):
        merge_pack(pack.out)


def test_a_damaged_file_is_no_source_for_another(packed: Callable[..., Packed]) -> None:
    pack = packed()
    data = bytearray(pack.before["train.index"])
    data[-1] ^= 1
    (pack.out / "train.index").write_bytes(data)
    (pack.out / "train-000001.index").unlink()
    with pytest.raises(DamageError, match=r"train\.index: its SHA-256 differs"):
        pack.again()
    # As verify's hint says: remove what is damaged, and run the same command again.
    (pack.out / "train.index").unlink()
    pack.again()
    assert pack.now() == pack.before


def test_a_link_to_nowhere_and_a_folder_give_way(packed: Callable[..., Packed]) -> None:
    pack = packed()
    pack.shard(0).unlink()
    pack.shard(0).symlink_to("nowhere")
    pack.shard(1).unlink()
    pack.shard(1).mkdir()
    pack.again()
    now = pack.now()
    assert {name: data for name, data in now.items() if ".old-" not in name} == pack.before
    assert len(list(pack.out.glob("*.old-*"))) == 2


def test_force_makes_all_anew(packed: Callable[..., Packed]) -> None:
    pack = packed()
    pack.shard(1).unlink()
    result = convert_dataset(pack.source, pack.out, pack.options, force=True)
    assert result.moved is not None and not (result.moved / "train-000001.tar").exists()
    assert pack.now() == pack.before


def test_a_reader_that_has_the_pack_open_goes_on(packed: Callable[..., Packed]) -> None:
    pack = packed()
    dataset = PackedDataset(pack.out, "train", decode="bytes")
    right = [dataset[number] for number in range(len(dataset))]
    dataset = PackedDataset(pack.out, "train", decode="bytes")
    assert dataset[0] == right[0]  # its first shard is open
    os.truncate(pack.shard(1), 10)
    with pytest.raises(DamageError, match="is cut short"):
        PackedDataset(pack.out, "train")
    pack.again()
    assert [dataset[number] for number in range(len(dataset))] == right


def test_a_pack_that_cannot_be_written_to(packed: Callable[..., Packed]) -> None:
    pack = packed()
    pack.shard(1).unlink()
    (pack.out / ".packer").write_bytes(b"")
    with pytest.raises(OutputError, match="a file is in the way"):
        pack.again()
    assert not pack.shard(1).exists()


#: `packer convert`, killed when it is about to publish for the n-th time in one of its modules.
_KILLED = """
import os, signal, sys
from packer.cli import _group
from packer.packing import restoring
from packer.packing.shards import shard

module, name = {"shard": (shard, "publish"), "beside": (restoring, "publish_bytes")}[sys.argv[1]]
left, real = int(sys.argv[2]), getattr(module, name)

def publish(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

setattr(module, name, publish)
_group.run(sys.argv[3:])
"""


@pytest.mark.parametrize(("where", "count"), [("shard", 2), ("beside", 1)])
def test_killed_in_between_the_same_command_goes_on(
    packed: Callable[..., Packed], where: str, count: int
) -> None:
    pack = packed()
    arguments = [
        "convert", str(pack.source), "-o", str(pack.out), "--resize", "24", "--batch-size", "4",
        "--shard-size", "1000", "--split", "train=0.7,val=0.3", "-j", "1",
    ]  # fmt: skip
    shards = sorted(pack.out.glob("*.tar"))
    for path in (*shards, pack.out / "val.index", pack.out / "skipped.jsonl"):
        path.unlink()
    command = [sys.executable, "-c", _KILLED, where, str(count), *arguments]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    made = {path: path.stat().st_ino for path in shards if path.exists()}
    assert len(made) == (count if where == "shard" else len(shards))
    done = subprocess.run(
        [sys.executable, "-m", "packer", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{pack.out}\n"), done.stderr
    assert "the pack is complete again" in done.stderr
    assert {path: path.stat().st_ino for path in made} == made
    assert pack.now() == pack.before
    assert not (pack.out / ".packer").exists()
