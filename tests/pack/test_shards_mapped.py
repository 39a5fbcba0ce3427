"""Shards that are seen as memory: in a tmpfs, or on a disk of this machine."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from packer.errors import DamageError
from packer.files import mapped
from packer.pack import mapping, shards
from packer.pack import shardfile as opened
from packer.pack.opened import Pack
from packer.pack.shards import ShardFiles
from tests.packs import BuildPack


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def files_of(build_pack: BuildPack, **changes: Any) -> tuple[Any, ShardFiles]:
    # Larger than two fingerprints, so that its middle is in neither.
    built = build_pack(**{"shards": [[8], [8]], "sizes": [(64, 40)], **changes})
    return built, ShardFiles(Pack(built.root))


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shard lies in memory."""
    monkeypatch.setattr(mapping, "in_memory", lambda device: True)


@pytest.mark.usefixtures("memory")
def test_a_shard_in_memory_is_not_copied(build_pack: BuildPack, format_name: str) -> None:
    built, files = files_of(build_pack, format_name=format_name)
    data = built.shard(0).read_bytes()
    first, second = files.read(0, 5, 4000), files.read(0, 2000, 10)
    assert first == data[5:4005]
    assert first.obj is second.obj
    assert first.readonly
    files.advise(0, 0, 1000)
    with pytest.raises(DamageError, match=rf"ends at byte {len(data)}"):
        files.read(0, len(data) - 10, 11)
    assert len(files.read(0, 0, 0)) == 0
    files.close()
    built.shard(0).unlink()
    assert first == data[5:4005]  # a slice keeps what it is of
    with pytest.raises(DamageError, match="is missing"):
        files.read(0, 0, 10)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_an_error_at_opening_in_memory_is_tried_again(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    built, files = files_of(build_pack)
    real = os.open
    failed: list[int] = []

    def fail_once(*arguments: Any, **options: Any) -> int:
        if not failed:
            failed.append(number)
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    monkeypatch.setattr(os, "open", fail_once)
    assert files.read(0, 20, 10) == built.shard(0).read_bytes()[20:30]
    assert failed == [number]


@pytest.mark.usefixtures("memory")
def test_few_files_in_memory_stay_mapped(build_pack: BuildPack) -> None:
    built = build_pack([[1]] * 10)
    files = ShardFiles(Pack(built.root), limit=3)
    before = open_files()
    for shard in (*range(10), *range(10)):
        files.read(shard, 0, 100)
    assert open_files() == before + 2 * 3  # a mapping has a descriptor of its own
    files.close()
    assert open_files() == before


@pytest.mark.usefixtures("memory")
def test_a_swapped_shard_in_memory_is_refused(build_pack: BuildPack) -> None:
    """An index must not be used with another shard, mapped shards included."""
    built, files = files_of(build_pack)
    other = built.root / "other"
    other.write_bytes(bytes(built.shard(1).stat().st_size))
    other.replace(built.shard(1))
    with pytest.raises(DamageError, match=r"train-000001.*swapped"):
        files.read(1, 9000, 10)


@pytest.fixture
def local_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shard is on a disk of this machine."""
    monkeypatch.setattr(mapping, "in_memory", lambda device: False)
    monkeypatch.setattr(mapping, "file_system", lambda device: "ext4")


@pytest.mark.usefixtures("local_disk")
def test_what_was_announced_is_not_copied(build_pack: BuildPack, format_name: str) -> None:
    built, files = files_of(build_pack, format_name=format_name)
    data = built.shard(0).read_bytes()
    files.advise(0, 5, 4000)
    first, second = (files.read(0, 5, 4000, announced=True) for _ in range(2))
    assert first == second == data[5:4005]
    assert first.obj is second.obj
    assert first.readonly
    alone = files.read(0, 5, 4000)  # or the kernel would read more than that, page by page
    assert alone == first and alone.obj is not first.obj
    files.close()
    built.shard(0).unlink()
    assert first == data[5:4005]


@pytest.mark.usefixtures("local_disk")
def test_a_mapped_shard_that_is_cut_short_later(build_pack: BuildPack) -> None:
    """An error that says where, not a SIGBUS."""
    built, files = files_of(build_pack, sizes=[(64, 64)])
    size = built.shard(0).stat().st_size
    assert len(files.read(0, 0, size, announced=True)) == size
    os.truncate(built.shard(0), size // 2)
    with pytest.raises(DamageError, match=rf"ends at byte {size // 2}"):
        files.read(0, 0, size, announced=True)


def test_on_other_file_systems_what_was_announced_is_read(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "in_memory", lambda device: False)
    monkeypatch.setattr(mapping, "file_system", lambda device: "nfs4")
    built, files = files_of(build_pack)
    first, second = (files.read(0, 5, 4000, announced=True) for _ in range(2))
    assert first == second == built.shard(0).read_bytes()[5:4005]
    assert first.obj is not second.obj


@pytest.mark.usefixtures("local_disk")
def test_a_look_finds_what_has_changed(build_pack: BuildPack) -> None:
    """Before and after a mini-batch; touching is no damage, but checksums are compared anew."""
    built, files = files_of(build_pack, sizes=[(64, 64)])
    size = built.shard(0).stat().st_size
    held = files.read(0, 0, size, announced=True)
    assert files.look() == files.look() == 0
    built.shard(0).touch()
    assert files.look() == files.look() == 1
    files.close()
    os.truncate(built.shard(0), size // 2)
    for _ in range(2):  # as long as anybody sees what was read
        with pytest.raises(DamageError, match=r"train-000000.*swapped or changed"):
            files.look()
    assert held[-1] == 0
    with pytest.raises(DamageError, match=rf"train-000000.*has {size // 2} bytes, not {size}"):
        files.look()
    held.release()
    assert files.look() == 1


def test_without_the_extension_shards_are_read(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped.NATIVE, "module", None)
    monkeypatch.setattr(mapping, "file_system", lambda device: "ext4")
    built, files = files_of(build_pack)
    data = built.shard(0).read_bytes()
    for _ in range(2):
        assert files.read(0, 5, 4000, announced=True) == data[5:4005]
    os.truncate(built.shard(0), 10)
    assert files.look() == 0
    with pytest.raises(DamageError, match="ends at byte 10"):
        files.read(0, 5, 4000, announced=True)


def test_on_slow_file_systems_looks_are_rare(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may ask a server."""
    monkeypatch.setattr(mapping, "file_system", lambda device: "nfs4")
    monkeypatch.setattr(mapping, "in_memory", lambda device: False)
    for module in (opened, shards):
        monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    built, files = files_of(build_pack)
    files.read(0, 0, 10)
    files.read(0, 0, 10)
    built.shard(0).touch()
    files.read(0, 0, 10)
    assert files.changes == 0
    files.look()
    (built.root / "train.index").write_bytes(b"")
    files.look()
    monkeypatch.setattr(shards, "LOOK_SECONDS", 0.0)
    files = ShardFiles(files._pack)
    with pytest.raises(DamageError, match=r"train\.index: was changed"):
        files.look()
