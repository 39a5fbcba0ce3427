from __future__ import annotations

import errno
import fcntl
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from packer.errors import DamageError, PackerError
from packer.files.space import file_system
from packer.pack.mapping import LOCAL
from packer.pack.opened import Pack
from packer.pack.shardfile import ADVICE_BYTES, OpenShard
from packer.pack.shards import ShardFiles
from tests.packs import BuildPack, PackOptions

# Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
pytestmark = pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")

# Larger than two fingerprints, so that its middle is in neither.
BIG: PackOptions = {"shards": [[8], [8]], "sizes": [(64, 40)]}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def files_of(build_pack: BuildPack, **changes: Any) -> tuple[Any, ShardFiles]:
    built = build_pack(**{**BIG, **changes})
    return built, ShardFiles(Pack(built.root))


def test_reads_ranges_exactly(build_pack: BuildPack, format_name: str) -> None:
    built, files = files_of(build_pack, format_name=format_name)
    data = built.shard(1).read_bytes()
    for offset, size in ((0, 1), (5, 4000), (len(data) - 3, 3), (7, 0)):
        assert files.read(1, offset, size) == data[offset : offset + size]
    buffer = bytearray(100)
    files.read_into(1, 50, memoryview(buffer))
    assert buffer == data[50:150]


def test_short_reads_are_continued(build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call returns at most 2 GiB, and less whenever the file system likes."""
    built, files = files_of(build_pack)
    real = os.preadv

    def grudging(fd: int, buffers: Sequence[memoryview], offset: int) -> int:
        return real(fd, [buffers[0][:1000]], offset)

    monkeypatch.setattr(os, "preadv", grudging)
    data = built.shard(0).read_bytes()
    assert files.read(0, 10, 9999) == data[10:10009]


def test_reading_past_the_end_names_the_shard(build_pack: BuildPack) -> None:
    built, files = files_of(build_pack)
    size = built.shard(0).stat().st_size
    with pytest.raises(DamageError, match=rf"train-000000.tar: ends at byte {size}"):
        files.read(0, size - 10, 11)


def replace_with(path: Path, data: bytes) -> None:
    temp = path.with_suffix(".new")
    temp.write_bytes(data)
    temp.replace(path)


@pytest.mark.parametrize("place", [0, 100, -1])
def test_a_swapped_shard_is_refused_at_its_first_read(
    build_pack: BuildPack, format_name: str, place: int
) -> None:
    """Another shard of the same size is told apart by its head or tail."""
    built, files = files_of(build_pack, format_name=format_name)
    data = bytearray(built.shard(1).read_bytes())
    data[place] ^= 1
    replace_with(built.shard(1), bytes(data))
    assert files.read(0, 0, 10)
    with pytest.raises(DamageError, match=r"train-000001.*train\.index.*swapped") as caught:
        files.read(1, 9000, 10)
    assert "packer verify" in caught.value.hint
    assert "copy it again" in caught.value.hint


def test_a_shard_that_disappears_is_missing(build_pack: BuildPack) -> None:
    built, files = files_of(build_pack)
    built.shard(1).unlink()
    with pytest.raises(DamageError, match=r"train-000001\.tar: is missing"):
        files.read(1, 0, 10)


def test_few_files_stay_open(build_pack: BuildPack) -> None:
    built = build_pack([[1]] * 10)
    pack = Pack(built.root)
    files = ShardFiles(pack, limit=3)
    before = open_files()
    for shard in (*range(10), *range(10)):
        files.read(shard, 0, 100)
    assert open_files() == before + 3
    files.close()
    assert open_files() == before
    assert files.read(4, 0, 3) == built.shard(4).read_bytes()[:3]
    del files
    assert open_files() == before


def test_pickles_after_use(build_pack: BuildPack) -> None:
    """Open files do not pickle; each process must open its own."""
    built, files = files_of(build_pack)
    files.read(0, 0, 10)
    copy = pickle.loads(pickle.dumps(files))
    assert copy.read(0, 0, 10) == built.shard(0).read_bytes()[:10]


def test_a_forked_child_opens_its_own_files(build_pack: BuildPack) -> None:
    """Workers that shared a handle read wrong data; a child opens and checks its own files,
    although its parent has, and holds the lock.
    """
    built, files = files_of(build_pack)
    files.read(0, 0, 10)
    replace_with(built.shard(0), bytes(built.shard(0).stat().st_size))
    with files._lock:  # another thread of the parent may be here when it forks
        child = os.fork()
        if child == 0:
            try:
                files.read(0, 0, 10)
            except DamageError:
                os._exit(7)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert files.read(0, 0, 10) != bytes(10)  # the parent still holds the old file, whole


def failing(
    monkeypatch: pytest.MonkeyPatch, number: int, times: int, name: str = "preadv"
) -> list[int]:
    """Makes os.preadv (or os.open) fail so many times."""
    real, left = getattr(os, name), [times]

    def fail(*arguments: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, name, fail)
    return left


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("name", ["preadv", "open"])
def test_a_passing_error_is_tried_again(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """After one "stale file handle" the file is opened anew."""
    built, files = files_of(build_pack)
    if name == "preadv":
        files.read(0, 0, 10)
    left = failing(monkeypatch, number, 1, name)
    assert files.read(0, 20, 10) == built.shard(0).read_bytes()[20:30]
    assert left == [0]


@pytest.mark.parametrize(("number", "times"), [(errno.ESTALE, 2), (errno.EACCES, 1)])
def test_a_lasting_error_says_what_and_where(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, number: int, times: int
) -> None:
    _, files = files_of(build_pack)
    files.read(0, 0, 10)
    left = failing(monkeypatch, number, times)
    with pytest.raises(PackerError, match=rf"000000.tar: cannot be read at offset 77.*{number}"):
        files.read(0, 77, 10)
    assert left == [0]


def test_a_shard_replaced_under_the_reader_never_mixes(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the handle goes stale and another file has the name, that file is checked first."""
    built, files = files_of(build_pack)
    files.read(0, 0, 10)
    whole = built.shard(0).read_bytes()
    replace_with(built.shard(0), bytes(len(whole)))
    failing(monkeypatch, errno.ESTALE, 1)
    with pytest.raises(DamageError, match="swapped"):
        files.read(0, 0, 10)
    assert files.changes == 0
    replace_with(built.shard(0), whole)
    assert files.read(0, 0, 10) == whole[:10]
    assert files.changes == 1


def test_touching_a_shard_is_fine(build_pack: BuildPack) -> None:
    """A modification time alone must not make a shard invalid."""
    built, files = files_of(build_pack)
    files.read(0, 0, 10)
    os.utime(built.shard(0), (5, 5))
    files.close()
    assert files.read(0, 0, 10) == built.shard(0).read_bytes()[:10]


def test_a_lock_of_another_process_does_not_matter(build_pack: BuildPack, format_name: str) -> None:
    """Locks on shared file systems stopped readers; a finished shard is read while another process
    holds flock and lockf on it.
    """
    built, files = files_of(build_pack, format_name=format_name)
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b'); fcntl.flock(file, fcntl.LOCK_EX);"
        "fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(built.shard(0))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with built.shard(0).open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert files.read(0, 0, 10) == built.shard(0).read_bytes()[:10]
        holder.communicate()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_read_only_pack_of_another_user_is_read(build_pack: BuildPack, format_name: str) -> None:
    """A pack in a read-only folder must open: no lock file is made, no write is tried."""
    built = build_pack([[4]], format_name)
    before = sorted(built.root.iterdir())
    for path in before:
        path.chmod(0o444)
    built.root.chmod(0o555)
    for folder in list(built.root.parents)[:-2]:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            (built.root / "x").touch()
        except PermissionError:
            whole = ShardFiles(Pack(built.root)).read(0, 0, 600)
            os._exit(0 if whole == built.shard(0).read_bytes()[:600] else 2)
        os._exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    built.root.chmod(0o755)
    assert status == 0
    assert sorted(built.root.iterdir()) == before


def test_threads_share_it(build_pack: BuildPack) -> None:
    """With room for one open file, so that files close while other threads read from them."""
    built = build_pack([[2]] * 4)
    files = ShardFiles(Pack(built.root), limit=1)
    whole = [built.shard(number).read_bytes() for number in range(4)]
    wrong: list[int] = []

    def read(start: int) -> None:
        for turn in range(150):
            shard = (start + turn) % 4
            if files.read(shard, turn, 500) != whole[shard][turn : turn + 500]:
                wrong.append(turn)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_hints_to_the_kernel_are_only_hints(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, files = files_of(build_pack)
    monkeypatch.setattr(OpenShard, "is_cached", lambda *_: False)
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: told.append(arguments[1:3]))
    files.advise(0, 512, 1000)
    assert told == [(512, 1000)]
    failing(monkeypatch, errno.ENOSYS, 9, "posix_fadvise")
    files.advise(0, 512, 1000)
    monkeypatch.delattr(os, "posix_fadvise")
    files.advise(0, 512, 1000)


def advice_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """What the kernel is told: (offset, size, kind) of each call."""
    calls: list[tuple[int, int, int]] = []
    monkeypatch.setattr(OpenShard, "is_cached", lambda *_: False)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *what: calls.append(what))
    return calls


def test_what_is_in_the_page_cache_is_not_announced(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, files = files_of(build_pack)
    if file_system(built.shard(0).stat().st_dev) not in LOCAL:
        pytest.skip("needs a file system of a disk")
    size = built.shard(0).stat().st_size
    real, calls = os.posix_fadvise, []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *what: calls.append(what))
    files.read(0, 0, size)
    files.advise(0, 0, size)
    assert calls == []
    files.advise(0, 0, size + 1)  # whose end is not there
    assert len(calls) == 1
    with built.shard(0).open("rb") as file:
        os.fsync(file.fileno())
        real(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    files.advise(0, 0, size)
    assert len(calls) == 2


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
def test_advice_is_given_in_pieces(build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux takes no more of one call than a device's largest transfer."""
    _, files = files_of(build_pack)
    calls = advice_of(monkeypatch)
    files.advise(0, 100, ADVICE_BYTES * 5 // 2)
    assert {kind for _, _, kind in calls} == {os.POSIX_FADV_WILLNEED}
    assert [start for start, _, _ in calls] == [100 + ADVICE_BYTES * n for n in range(3)]
    assert sum(size for _, size, _ in calls) == ADVICE_BYTES * 5 // 2


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
def test_advice_is_of_the_size_that_the_file_system_prefers(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS the size of its READ calls. Asked when the file is opened and not again: after a read
    NFS would ask the server.
    """
    real = os.fstat
    asked: list[int] = []

    def fstat(number: int) -> os.stat_result:
        asked.append(number)
        found = real(number)
        more = {"st_blksize": 1 << 20, "st_mtime_ns": found.st_mtime_ns}
        return os.stat_result(tuple(found), more)

    monkeypatch.setattr(os, "fstat", fstat)
    files = ShardFiles(Pack(build_pack([[4]]).root))
    calls = advice_of(monkeypatch)
    files.advise(0, 0, 5 << 19)
    assert [size for _, size, _ in calls] == [1 << 20, 1 << 20, 1 << 19]
    asked.clear()
    files.advise(0, 0, 5 << 19)
    assert asked == []


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs posix_fadvise")
def test_no_order_holds_for_open_files_and_later_ones(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, files = files_of(build_pack)
    files.read(0, 0, 10)
    calls = advice_of(monkeypatch)
    files.expect_no_order()
    assert calls == [(0, 0, os.POSIX_FADV_RANDOM)]
    files.read(1, 0, 10)
    assert len(calls) == 2


def test_a_pipe_in_a_shards_place_is_damage(build_pack: BuildPack) -> None:
    """Not waited for."""
    built, files = files_of(build_pack)
    built.shard(0).unlink()
    os.mkfifo(built.shard(0))
    with pytest.raises(DamageError, match=r"train-000000\.tar: is not a regular file"):
        files.read(0, 0, 10)
