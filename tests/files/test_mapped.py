from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer.files.mapped import arm, map_file

CONTENT = os.urandom(5 * mmap.PAGESIZE + 77)
#: A file mapped by Python itself and cut short, which ends a process.
_OTHERS_FAULT = """
import mmap, os, sys
from packer.files.mapped import arm, map_file
with open(sys.argv[1], "r+b") as file:
    ours, theirs = map_file(file.fileno()), mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    os.truncate(file.fileno(), 0)
bytes(ours)
assert ours.faults
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    number = os.open(path, os.O_RDONLY)
    yield number
    os.close(number)


def test_what_is_in_the_file(path: Path, descriptor: int) -> None:
    mapped = map_file(descriptor)
    view = memoryview(mapped)
    assert view == CONTENT and view.readonly and view.obj is mapped
    assert mapped.faults == 0 and mapped.is_same()
    assert os.path.samestat(os.fstat(mapped.fileno()), path.stat())
    path.unlink()
    assert view == CONTENT


def test_a_descriptor_lives_as_long_as_a_slice(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with path.open("rb") as file:
        part = memoryview(map_file(file.fileno()))[10:20]
    assert part == CONTENT[10:20]
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del part
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("left", [0, 1, mmap.PAGESIZE, 2 * mmap.PAGESIZE + 5])
def test_what_was_cut_off_is_zeros_and_counted(path: Path, descriptor: int, left: int) -> None:
    """Touching it would be a SIGBUS, which ends this process."""
    mapped = map_file(descriptor)
    os.truncate(path, left)
    assert not mapped.is_same()
    assert bytes(mapped) == CONTENT[:left].ljust(len(CONTENT), b"\0")
    assert mapped.faults == 1
    assert zlib.crc32(mapped) == zlib.crc32(CONTENT[:left].ljust(len(CONTENT), b"\0"))
    assert mapped.faults == 1


def test_faults_are_those_of_one_file(path: Path, tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "whole").write_bytes(CONTENT)
    with (tmp_path / "whole").open("rb") as file:
        whole = map_file(file.fileno())
    cut = [map_file(descriptor) for _ in range(50)]
    os.truncate(path, 0)
    for mapped in cut[::2]:
        bytes(mapped)
    assert [mapped.faults for mapped in cut] == [1, 0] * 25
    assert whole.faults == 0 and bytes(whole) == CONTENT
    del cut, mapped
    assert map_file(whole.fileno()).faults == 0  # where another was


def test_a_forked_child_has_faults_of_its_own(path: Path, descriptor: int) -> None:
    mapped = map_file(descriptor)
    os.truncate(path, 0)
    child = os.fork()
    if child == 0:
        os._exit(42 if bytes(mapped).count(0) == len(CONTENT) and mapped.faults == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert mapped.faults == 0


def test_changes_are_seen_until_they_are_accepted(path: Path, descriptor: int) -> None:
    mapped = map_file(descriptor)
    for change in (
        lambda: path.write_bytes(CONTENT[::-1]),
        lambda: os.utime(path, (0, 0)),
        lambda: os.truncate(path, 5),
    ):
        stamp = mapped.stamp()
        change()
        assert not mapped.is_same() and mapped.stamp() != stamp
        mapped.accept(mapped.stamp())
        assert mapped.is_same()


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file, pytest.raises(OSError, match="Invalid argument"):
        map_file(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        map_file(-1)


@pytest.mark.parametrize("order", ["before", "after", "both", "none"])
def test_faults_of_others_are_passed_on(path: Path, order: str) -> None:
    """To faulthandler, whether it was there before or came later; and then the process ends."""
    parts = [_OTHERS_FAULT, "bytes(theirs)"]
    if order in ("after", "both"):
        parts.insert(1, "import faulthandler; faulthandler.enable(); arm()")
    options = ["-X", "faulthandler"] if order in ("before", "both") else []
    done = subprocess.run(
        [sys.executable, *options, "-c", "\n".join(parts), path],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert ("Fatal Python error: Bus error" in done.stderr) == (order != "none")


@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN", "lambda *_: sys.exit(7)"])
def test_a_signal_that_was_sent_is_passed_on(path: Path, handler: str) -> None:
    lines = [
        "import signal, time",
        f"signal.signal(signal.SIGBUS, {handler.replace('SIG_', 'signal.SIG_')})",
        _OTHERS_FAULT,
        "os.kill(os.getpid(), signal.SIGBUS)",
        "time.sleep(0.01)",
        "sys.exit(9)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(["import sys", *lines]), path], check=False, timeout=60
    )
    expected = {"SIG_DFL": -signal.SIGBUS, "SIG_IGN": 9}
    assert done.returncode == expected.get(handler, 7)


def test_a_handler_that_came_later_is_taken_over(path: Path, descriptor: int) -> None:
    """torch sets one in each worker of a DataLoader."""
    mapped = map_file(descriptor)
    os.truncate(path, 0)
    before = signal.signal(signal.SIGBUS, signal.SIG_DFL)
    try:
        arm()
        bytes(mapped)
        assert mapped.faults == 1
    finally:
        signal.signal(signal.SIGBUS, before if callable(before) else signal.SIG_DFL)


def test_without_the_extension_nothing_is_mapped(path: Path) -> None:
    code = (
        "import sys; sys.modules['packer.files._mapped'] = None\n"
        "from packer.files.mapped import NATIVE, arm, map_file\n"
        "arm()\n"
        "assert not NATIVE.is_built\n"
        "try: map_file(0)\n"
        "except OSError: sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == 7
