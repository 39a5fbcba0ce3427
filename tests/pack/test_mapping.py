from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer.pack import mapping
from packer.pack.mapping import LOCAL, Mapping, map_local, map_memory

CONTENT = os.urandom(5 * mmap.PAGESIZE + 77)


def content_of(found: memoryview | None) -> bytes:
    assert found is not None
    return bytes(found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shard"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    yield number
    os.close(number)


@pytest.fixture(params=LOCAL)
def _local(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "file_system", lambda device: request.param)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize(
    ("offset", "size"), [(0, 1), (5, 9000), (mmap.PAGESIZE, mmap.PAGESIZE), (len(CONTENT), 0)]
)
def test_ranges_are_what_is_in_the_file(
    descriptor: int, resident: bool, offset: int, size: int
) -> None:
    whole = Mapping(descriptor, resident)
    found = whole.range(offset, size)
    assert content_of(found) == CONTENT[offset : offset + size]
    assert found is not None and found.readonly
    assert whole.range(len(CONTENT) - 1, 2) is None


def test_a_range_outlives_its_mapping_and_its_file(path: Path, descriptor: int) -> None:
    found = Mapping(descriptor, resident=False).range(3, 20000)
    path.unlink()
    assert content_of(found) == CONTENT[3:20003]


def test_a_file_cut_short_is_an_answer_and_no_signal(path: Path, descriptor: int) -> None:
    whole = Mapping(descriptor, resident=False)
    assert whole.range(0, len(CONTENT)) is not None
    os.truncate(path, 2 * mmap.PAGESIZE)
    assert whole.range(0, len(CONTENT)) is None
    assert whole.range(3 * mmap.PAGESIZE, 10) is None
    assert content_of(whole.range(10, mmap.PAGESIZE)) == CONTENT[10 : mmap.PAGESIZE + 10]


def test_pages_are_asked_for_before_they_are_fetched(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetching takes eighty times as long. Where the file is another user's, asking tells nothing:
    its pages are fetched.
    """
    ours = Mapping(descriptor, resident=False)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        theirs = Mapping(descriptor, resident=False)
    monkeypatch.setattr(mapping, "_POPULATE_READ", 9999)  # fails
    assert content_of(ours.range(0, len(CONTENT))) == CONTENT
    assert theirs.range(0, len(CONTENT)) is None


def test_pages_that_are_not_there_are_fetched(path: Path, descriptor: int) -> None:
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    assert content_of(Mapping(descriptor, resident=False).range(3, 9000)) == CONTENT[3:9003]


def test_a_kernel_that_cannot_tell(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 5.14."""
    monkeypatch.setattr(mapping, "_POPULATE_READ", 9999)
    monkeypatch.setattr(mapping, "_is_in_memory", lambda place, length: False)
    assert Mapping(descriptor, resident=False).range(0, 10) is None
    assert content_of(Mapping(descriptor, resident=True).range(0, 10)) == CONTENT[:10]


@pytest.mark.usefixtures("_local")
def test_files_of_local_disks_are_mapped(descriptor: int) -> None:
    found = map_local(descriptor)
    assert found is not None and not found.resident
    assert content_of(found.range(1, 100)) == CONTENT[1:101]


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "fuse.sshfs", "lustre", "overlay", ""])
def test_files_of_other_machines_and_unknown_ones_are_not(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An NFS file that another node cuts short reads as zeros."""
    monkeypatch.setattr(mapping, "file_system", lambda device: kind)
    assert map_local(descriptor) is None


def test_where_address_space_is_short(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mapping, "file_system", lambda device: "ext4")
    monkeypatch.setattr(mapping, "map_file", fail)
    assert map_local(descriptor) is None


def test_files_in_memory(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "in_memory", lambda device: False)
    assert map_memory(descriptor) is None
    monkeypatch.setattr(mapping, "in_memory", lambda device: True)
    found = map_memory(descriptor)
    assert found is not None and found.resident


def test_an_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "in_memory", lambda device: True)
    monkeypatch.setattr(mapping, "file_system", lambda device: "ext4")
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file:
        assert map_memory(file.fileno()) is None
        assert map_local(file.fileno()) is None
