"""Locks: exclusion, takeover from dead holders, holders that lose their lock."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from packer.errors import InUse, OutputError, WorkDone
from packer.packing.holder import Holder, myself
from packer.packing.lock import Lock, Timing

pytestmark = pytest.mark.slow

#: Patience of 0.1 s, so that nobody waits for a holder that is gone.
FAST = Timing(renew=0.02, patience=5, first=15)
#: Patience of a minute: one that lives is seen at its next renewal, however busy the machine is.
PATIENT = Timing(renew=0.02, patience=3000, first=3000)

_HOLD = """
import sys, time
from pathlib import Path
from packer.packing.lock import Lock
part = int(sys.argv[2]) if sys.argv[2] != "all" else None
with Lock(Path(sys.argv[1]), part, "SLURM job 7_3"):
    print("held", flush=True)
    time.sleep(60)
"""

#: Waits for the file GO, then wants the lock; says whether it got it, keeps it until it is told.
_RACE = """
import sys, time
from pathlib import Path
from packer.errors import InUse
from packer.packing.lock import Lock
folder = Path(sys.argv[1])
print("ready", flush=True)
while not (folder.parent / "GO").exists():
    time.sleep(0.001)
try:
    with Lock(folder, None):
        print("held", flush=True)
        sys.stdin.read()
except InUse:
    print("refused", flush=True)
"""


def _start(script: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _holder(folder: Path, part: str) -> "subprocess.Popen[str]":
    process = _start(_HOLD, folder, part)
    assert _line(process) == "held"
    return process


def _end(process: "subprocess.Popen[str]", number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.communicate()


def _elsewhere(**changes: object) -> Holder:
    there = dataclasses.replace(
        myself(), host="node7", kernel="x", pid=1, started="1", job="SLURM job 4711_3"
    )
    return dataclasses.replace(there, **changes)  # type: ignore[arg-type]


def _wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(FAST.renew)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("held", "wanted", "refused"),
    [("all", None, True), ("all", 1, True), ("1", None, True), ("1", 1, True), ("1", 2, False)],
)
def test_who_excludes_whom(tmp_path: Path, held: str, wanted: int | None, refused: bool) -> None:
    process = _holder(tmp_path, held)
    try:
        if refused:
            message = rf"process {process.pid}, SLURM job 7_3, since"
            with pytest.raises(InUse, match=message), Lock(tmp_path, wanted):
                pass
        else:
            with Lock(tmp_path, wanted):
                assert len(_names(tmp_path)) == 2
    finally:
        _end(process)
    assert len(_names(tmp_path)) == 1


def test_a_killed_holder_is_replaced_at_once(tmp_path: Path) -> None:
    _end(_holder(tmp_path, "all"))
    _end(_holder(tmp_path, "5"))
    with Lock(tmp_path, None) as lock:
        lock.confirm()
        assert _names(tmp_path) == ["lock-all"]
    assert not _names(tmp_path)


def test_a_number_that_went_to_another_process_does_not_hold(tmp_path: Path) -> None:
    earlier = dataclasses.replace(myself(), started="1")
    (tmp_path / "lock-all").write_bytes(earlier.to_bytes())
    with Lock(tmp_path, 3):
        assert _names(tmp_path) == ["lock-3"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"host": "a"}'])
def test_a_lock_file_cut_short_by_a_power_failure_is_replaced(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "lock-all").write_bytes(content)
    with Lock(tmp_path, None) as lock:
        lock.confirm()
        assert (tmp_path / "lock-all").read_bytes() not in (b"", content)
    assert not _names(tmp_path)


def _renewing(path: Path, stop: threading.Event) -> None:
    """What a holder on another machine does; its clock is years behind."""
    number = 1
    while not stop.wait(FAST.renew):
        os.utime(path, ns=(number, number))
        number += 1


def test_a_holder_on_another_machine_that_renews_is_believed_whatever_its_clock(
    tmp_path: Path,
) -> None:
    path, stop = tmp_path / "lock-all", threading.Event()
    path.write_bytes(_elsewhere().to_bytes())
    thread = threading.Thread(target=_renewing, args=(path, stop))
    thread.start()
    try:
        for _ in range(3):
            with pytest.raises(InUse, match=r"on node7, process 1, SLURM job 4711_3.*lock-all"):
                Lock(tmp_path, None, timing=PATIENT).__enter__()
            with pytest.raises(InUse, match="on node7"):
                Lock(tmp_path, 4, timing=PATIENT).__enter__()
    finally:
        stop.set()
        thread.join()
    assert _names(tmp_path) == ["lock-all"]


@pytest.mark.parametrize(("renewed", "looks"), [(1, FAST.patience), (0, FAST.first)])
def test_a_holder_on_another_machine_that_stopped_renewing_is_replaced(
    tmp_path: Path, renewed: int, looks: int
) -> None:
    path, notes = tmp_path / "lock-all", list[str]()
    path.write_bytes(_elsewhere().to_bytes())
    os.utime(path, ns=(renewed, renewed))
    start = time.monotonic()
    with Lock(tmp_path, None, timing=FAST, note=notes.append) as lock:
        assert time.monotonic() - start >= looks * FAST.renew
        lock.confirm()
    assert not _names(tmp_path)
    assert "watching the lock of packer on node7" in notes[0]


def test_a_machine_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    """Cloud images are all called localhost, and containers have process numbers of their own."""
    twin = dataclasses.replace(myself(), kernel="another", pid=2**22 + 1)
    path, stop = tmp_path / "lock-all", threading.Event()
    path.write_bytes(twin.to_bytes())
    thread = threading.Thread(target=_renewing, args=(path, stop))
    thread.start()
    try:
        with pytest.raises(InUse):
            Lock(tmp_path, None, timing=PATIENT).__enter__()
    finally:
        stop.set()
        thread.join()


def test_a_holder_renews_in_a_thread_and_notices_a_take_over(tmp_path: Path) -> None:
    with Lock(tmp_path, 2, timing=FAST) as lock:
        path = tmp_path / "lock-2"
        assert path.stat().st_mtime_ns == 0  # not yet
        threads = threading.active_count()
        lock.keep_alive()
        lock.keep_alive()
        assert threading.active_count() == threads + 1
        first = path.stat().st_mtime_ns
        assert first > 0
        _wait_for(lambda: path.stat().st_mtime_ns > first)
        lock.check()
        other = tmp_path / "other"
        other.write_bytes(_elsewhere().to_bytes())
        other.rename(path)
        with pytest.raises(InUse, match=r"lock was taken by packer on node7, process 1"):
            _wait_for(lock.check)
    assert path.read_bytes()  # another's lock is not ours to remove
    assert threading.active_count() == threads


def test_a_lock_that_is_gone_stops_its_holder(tmp_path: Path) -> None:
    with Lock(tmp_path, None) as lock:
        lock.confirm()
        (tmp_path / "lock-all").unlink()
        with pytest.raises(InUse, match="another run, which is done"):
            lock.confirm()


def test_a_child_process_does_not_release_its_parents_lock(tmp_path: Path) -> None:
    with Lock(tmp_path, None) as lock:
        child = os.fork()
        if child == 0:
            lock.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        lock.confirm()


def _dead() -> Holder:
    return dataclasses.replace(myself(), pid=2**22 + 1)  # above any pid_max


@pytest.mark.parametrize("claimed", [False, True], ids=["", "and-a-dead-taker"])
def test_of_many_takers_of_a_dead_holder_one_wins(tmp_path: Path, claimed: bool) -> None:
    """Processes that race for the same dead lock; and for that of a taker that died half-way."""
    folder = tmp_path / "work"
    folder.mkdir()
    dead = _dead()
    for round_number in range(3):
        (folder / "lock-all").write_bytes(dead.to_bytes())
        if claimed:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Path, "rename", _die)
                with pytest.raises(KeyboardInterrupt):
                    Lock(folder, None).__enter__()
            [claim] = folder.glob("lock-all.after-*")
            claim.write_bytes(_dead().to_bytes())
        racers = [_start(_RACE, folder) for _ in range(4)]
        assert [_line(racer) for racer in racers] == ["ready"] * 4
        (tmp_path / "GO").touch()
        said = Counter(_line(racer) for racer in racers)
        assert said == {"held": 1, "refused": 3}, f"round {round_number}"
        for racer in racers:
            racer.communicate("")
        assert not _names(folder)
        (tmp_path / "GO").unlink()


def _die(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_a_lock_is_renewed_without_a_thread_where_none_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Lock(tmp_path, None, timing=FAST) as lock:
        lock.keep_alive()
        seen = set()
        for _ in range(5):
            time.sleep(2 * FAST.renew)
            lock.check()
            seen.add((tmp_path / "lock-all").stat().st_mtime_ns)
        assert len(seen) == 5
    assert not list(tmp_path.iterdir())


def test_a_holder_that_is_done_takes_the_folder_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "pack" / ".packer"
    folder.mkdir(parents=True)
    for part in (None, 3):
        (folder / "lock-all").write_bytes(_elsewhere().to_bytes())

        def end(text: str) -> None:
            shutil.rmtree(folder)

        with pytest.raises(WorkDone, match=r"pack: the run that worked there is done"):
            Lock(folder, part, timing=PATIENT, note=end).__enter__()
        assert not folder.exists()
        folder.mkdir()


@pytest.mark.parametrize("planted", ["pipe", "link", "folder", "gigabytes"])
@pytest.mark.parametrize("part", [None, 3])
def test_what_is_no_lock_is_named(tmp_path: Path, planted: str, part: int | None) -> None:
    """Nobody waits for it, or reads it without an end."""
    path = tmp_path / "lock-all"
    if planted == "pipe":
        os.mkfifo(path)
    elif planted == "link":
        path.symlink_to("/dev/zero")
    elif planted == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(OutputError, match=r"lock-all: cannot be read as a lock: .*remove ") as e:
        Lock(tmp_path, part).__enter__()
    assert not isinstance(e.value, InUse)
    assert _names(tmp_path) == ["lock-all"]


@pytest.mark.parametrize("content", [b"[" * 60_000, b"null", b'{"pid": 1e99}', bytes(1000)])
def test_a_lock_that_names_nobody_is_replaced(tmp_path: Path, content: bytes) -> None:
    """As one that a power failure has cut short."""
    (tmp_path / "lock-all").write_bytes(content)
    with Lock(tmp_path, None) as lock:
        lock.confirm()
        assert (tmp_path / "lock-all").read_bytes() not in (b"", content)
    assert _names(tmp_path) == []
