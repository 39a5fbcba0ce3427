from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from packer.errors import DamageError, Interrupted, OutputError, PackerError
from packer.staging import copying
from packer.staging.copying import FileCopy, copy_files


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Source, target, and a folder for temp files."""
    found = tmp_path / "source", tmp_path / "target", tmp_path / "target" / "work"
    for folder in found:
        folder.mkdir()
    return found


def copies_of(folders: tuple[Path, Path, Path], sizes: list[int]) -> list[FileCopy]:
    source, target, _ = folders
    copies = []
    for number, size in enumerate(sizes):
        data = bytes([number]) * size
        (source / f"{number}").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        copies.append(FileCopy(source / f"{number}", target / f"{number}", size, digest))
    return copies


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("jobs", [1, 3])
def test_copies_whole_files(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr(copying, "COPY_BYTES", 1000)
    sizes = [0, 1, 999, 1000, 1001, 5000]
    copies = copies_of(folders, sizes)
    told: list[int] = []
    copy_files(copies, folders[2], jobs, told.append)
    for copy in copies:
        assert copy.target.read_bytes() == copy.source.read_bytes()
    assert names(folders[1]) == set("012345")
    assert told[-1] == sum(sizes)
    assert told == sorted(told)
    copy_files([], folders[2], jobs, told.append)


def test_several_are_read_at_once(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both reads wait for each other: one after the other would break the barrier."""
    both = threading.Barrier(2, timeout=20)
    real = copying._read

    def meet(copy: FileCopy, source: Any, buffer: memoryview, offset: int) -> int:
        if offset == 0:
            both.wait()
        return real(copy, source, buffer, offset)

    monkeypatch.setattr(copying, "_read", meet)
    copy_files(copies_of(folders, [10, 10]), folders[2], 2, lambda done: None)
    assert names(folders[1]) == {"0", "1"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "is missing"),
        (b"", "has 0 bytes, not 2000"),
        (bytes(1999), "has 1999 bytes, not 2000"),
        (bytes(2001), "has more than 2000 bytes, not 2000"),
        (bytes(2000), "its SHA-256 differs"),
    ],
)
def test_damage_is_never_copied(
    folders: tuple[Path, Path, Path], data: bytes | None, message: str
) -> None:
    """Damage must not spread: shards that are missing, cut, too long, or of other content."""
    copies = copies_of(folders, [500, 2000])
    copies[1].source.unlink()
    if data is not None:
        copies[1].source.write_bytes(data)
    with pytest.raises(DamageError, match=f"source/1: {message}") as caught:
        copy_files(copies, folders[2], 1, lambda done: None)
    assert caught.value.exit_code == 4
    assert "packer verify" in caught.value.hint
    assert names(folders[1]) == {"0"}


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_failing_source_is_named(folders: tuple[Path, Path, Path], number: int) -> None:
    [copy] = copies_of(folders, [10])

    class Failing:
        def readinto(self, buffer: memoryview) -> int:
            raise OSError(number, os.strerror(number))

    with pytest.raises(PackerError, match=rf"source/0: cannot be read at offset 7: .*{number}"):
        copying._read(copy, Failing(), memoryview(bytearray(3)), 7)  # type: ignore[arg-type]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("may not mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_half_way(folders: tuple[Path, Path, Path], small_disk: Path) -> None:
    """ENOSPC: what is whole stays, the rest leaves nothing, and the numbers are said."""
    whole, large = copies_of((folders[0], small_disk, small_disk), [50_000, 400_000])
    expected = r"small/1: No space left on device after [\d,]+ of its 400,000 bytes"
    with pytest.raises(OutputError, match=expected) as caught:
        copy_files([whole, large], small_disk, 1, lambda done: None)
    assert "run the same again" in caught.value.hint
    assert names(small_disk) == {"0"}


def test_an_interrupt_stops_all_threads(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "COPY_BYTES", 100)
    monkeypatch.setattr(copying, "_TELL_SECONDS", 0.02)
    slow = threading.Event()
    real = copying._read

    def dawdle(copy: FileCopy, source: Any, buffer: memoryview, offset: int) -> int:
        slow.wait(0.01)
        return real(copy, source, buffer, offset)

    def stop(done: int) -> None:
        if done:
            raise Interrupted(15)

    monkeypatch.setattr(copying, "_read", dawdle)
    before = threading.active_count()
    with pytest.raises(Interrupted):
        copy_files(copies_of(folders, [10**6] * 5), folders[2], 2, stop)  # 100 s, if not stopped
    assert threading.active_count() == before
    assert names(folders[1]) == set()
