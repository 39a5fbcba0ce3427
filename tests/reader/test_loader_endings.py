"""How a Loader ends: left, dropped, broken, interrupted, forked, shut down."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from pathlib import Path
from typing import Any

import pytest

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, PackedDataset
from packer.reader.batches.windows import WindowBuffer
from packer.types import Array
from tests.packs import BuildPack

pytestmark = pytest.mark.slow


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("packer-")]


def test_leaving_a_loop_ends_its_threads(build_pack: BuildPack) -> None:
    loader = Loader(build_pack([[8] * 4]).root, batch_size=2, threads=3)
    for _ in loader:
        assert own_threads()
        break
    assert own_threads() == []
    loop = iter(loader)
    next(loop)
    del loop
    assert own_threads() == []
    iter(loader)  # dropped before its first mini-batch
    assert own_threads() == []
    assert len(list(loader)) == 16
    assert own_threads() == []


def test_a_loop_in_a_cycle_ends_with_it(build_pack: BuildPack) -> None:
    """Collected wherever the collector runs: here, or in a decode thread."""
    loader = Loader(build_pack([[8] * 4]).root, batch_size=2, threads=2)
    for _ in range(3):
        loop = iter(loader)
        next(loop)
        cycle: list[Any] = [loop]
        cycle.append(cycle)
        del loop, cycle
        gc.collect()
        _wait_for(lambda: own_threads() == [])


def test_a_loop_may_be_collected_in_a_decode_thread(build_pack: BuildPack) -> None:
    """It cannot wait for the thread that it runs in."""
    dropped: list[Any] = []

    def drop(pixels: Array) -> Array:
        dropped.clear()
        return pixels

    dataset = PackedDataset(build_pack([[8] * 8]).root, transform=drop, decode="numpy")
    loop = iter(Loader(dataset, batch_size=2, threads=2))
    next(loop)
    other = iter(Loader(dataset, batch_size=2, threads=2))
    dropped.append(other)
    del other
    for _ in loop:
        pass
    _wait_for(lambda: own_threads() == [])
    assert dropped == []


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_at_once(build_pack: BuildPack) -> None:
    built = build_pack([[8] * 3])
    one, other = (Loader(built.root, batch_size=3, threads=2, fields=["key"]) for _ in range(2))
    assert [left == right for left, right in zip(one, other, strict=True)] == [True] * 8
    both = zip(one, one, strict=True)
    assert [left == right for left, right in both] != [True] * 8  # epochs 1 and 2


def test_an_error_of_a_transform_comes_where_its_mini_batch_would(build_pack: BuildPack) -> None:
    """With its own type and traceback, and the sample's name."""

    class Mine(Exception):
        pass

    built = build_pack([[8] * 3])

    def fail(pixels: Array) -> Array:
        if (pixels == built.pixels[9]).all():
            raise Mine("no ninth")
        return pixels

    dataset = PackedDataset(built.root, transform=fail, decode="numpy")
    loop = iter(Loader(dataset, batch_size=4, threads=2, shuffle="none"))
    assert [len(next(loop).label) for _ in range(2)] == [4, 4]
    with pytest.raises(Mine, match="no ninth") as caught:
        next(loop)
    text = "".join(traceback.format_exception(caught.value))
    assert "class4/9.v1.jpg" in text
    assert "in fail" in text
    assert own_threads() == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_no_kind_of_error_is_lost(build_pack: BuildPack, kind: type[BaseException]) -> None:
    def fail(label: int) -> int:
        raise kind

    dataset = PackedDataset(build_pack([[4]]).root, target_transform=fail)
    with pytest.raises(kind):
        list(Loader(dataset, batch_size=2))


@pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle(build_pack: BuildPack) -> None:
    """The child reads by a loop of its own; the parent's goes on."""
    built = build_pack([[8] * 3])
    loader = Loader(built.root, batch_size=4, threads=2, fields=["key"])
    expected = [list(batch) for batch in loader]
    following = [list(batch) for batch in loader]
    loader.set_epoch(0)
    loop = iter(loader)
    first = next(loop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            refused = False
            try:
                next(loop)
            except UsageError:
                refused = True
            del loop
            code = 0 if refused and [list(batch) for batch in loader] == following else 2
        finally:
            os._exit(code)
    assert [list(first), *map(list, loop)] == expected
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def run(text: str, root: Path, *, interrupt: str = "") -> tuple[int, str]:
    """Run a program with a loader over a pack; send SIGINT once it has printed `interrupt`."""
    head = (
        "import sys, time\nfrom packer.reader import Loader\n"
        f"loader = Loader({str(root)!r}, batch_size=2, threads=2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", head + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    try:
        if interrupt:
            while interrupt not in said:
                said += process.stdout.readline()
            process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:  # it hangs: the tests that follow are to go on without it
            process.kill()
            process.communicate()
    return process.returncode, said + rest


LEAVINGS = {
    "a loop begun": "loop = iter(loader); next(loop)",
    "a loop begun in a thread": (
        "import threading\n"
        "def go():\n"
        "    try: next(iter(loader))\n"
        "    except RuntimeError as error: assert 'shutdown' in str(error), error\n"
        "threading.Thread(target=go).start()"
    ),
    "a thread that goes on": (
        "import threading\n"
        "def go():\n"
        "    try:\n"
        "        while True:\n"
        "            for batch in loader: time.sleep(0.01)\n"
        "    except RuntimeError as error:\n"
        "        assert 'shutdown' in str(error), error\n"
        "threading.Thread(target=go).start(); time.sleep(0.2)"
    ),
    "an exit in the loop": "for batch in loader: sys.exit(0)",
    "a cycle": "loop = iter(loader); next(loop); cycle = [loop]; cycle.append(cycle); del loop",
}


@pytest.mark.parametrize("leaving", list(LEAVINGS))
def test_the_interpreter_shuts_down(build_pack: BuildPack, leaving: str) -> None:
    assert run(LEAVINGS[leaving], build_pack([[8] * 8]).root) == (0, "")


def test_ctrl_c(build_pack: BuildPack) -> None:
    """In the loop's own code, and while it waits for a mini-batch."""
    root = build_pack([[8] * 8]).root
    busy = "while True:\n  for batch in loader: print('on', flush=True)\n"
    waiting = (
        "from packer.reader import PackedDataset\n"
        "def slow(image):\n  print('on', flush=True); time.sleep(0.3); return image\n"
        f"dataset = PackedDataset({str(root)!r}, transform=slow)\n"
        "for batch in Loader(dataset, batch_size=64, threads=2): pass\n"
    )
    for text in (busy, waiting):
        begun = time.monotonic()
        code, said = run(text, root, interrupt="on\n")
        assert code in (-signal.SIGINT, 130)
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert time.monotonic() - begun < 30


def test_ctrl_c_while_a_thread_starts(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread runs by then, but its pool does not know it yet: the program never ended."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    loader = Loader(build_pack([[8]]).root, batch_size=2, threads=2)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            next(iter(loader))
    for thread in threading.enumerate():
        if thread.name.startswith("packer-"):
            thread.join(10)
    assert own_threads() == []
    assert caught.traceback  # it holds all that was made: nothing ended by being collected
    assert len(list(loader)) == 4


@pytest.mark.parametrize("sizes", [[(8, 6)], [(8, 6), (5, 7)]])
def test_a_mini_batch_is_free_when_the_loop_drops_it(build_pack: BuildPack, sizes: Any) -> None:
    """Not when the collector of cycles comes by: a few of them fill a machine."""
    loader = Loader(build_pack([[8] * 4], sizes=sizes).root, batch_size=4, threads=2)
    gc.disable()
    try:
        for images, labels in loader:
            pictures = images if isinstance(images, list) else [images]
            seen = [weakref.ref(tensor) for tensor in [*pictures, labels]]
            del images, labels, pictures
            assert [reference() for reference in seen] == [None] * len(seen)
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["the end", "a break", "an error", "a dropped iterator"])
@pytest.mark.parametrize("kind", [Loader, BatchStream])
def test_what_was_read_is_free_when_the_loop_ends(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, kind: Any, ending: str
) -> None:
    """A window of the pack, and files that are mapped, without waiting for Python's collector."""
    buffers: list[weakref.ref[WindowBuffer]] = []
    real = WindowBuffer.__init__

    def begin(self: WindowBuffer, *arguments: Any) -> None:
        buffers.append(weakref.ref(self))
        real(self, *arguments)

    def fail(pixels: Array) -> Array:
        if ending == "an error":
            raise ValueError("no")
        return pixels

    monkeypatch.setattr(WindowBuffer, "__init__", begin)
    dataset = PackedDataset(build_pack([[8] * 4]).root, transform=fail)
    loader = kind(dataset, batch_size=2)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            for number, _ in enumerate(loader):
                if ending == "a break" and number == 3:
                    break
                if ending == "a dropped iterator":
                    next(iter(loader))
        assert buffers
        assert [buffer for buffer in buffers if buffer() is not None] == []
    finally:
        gc.enable()


def test_nothing_grows_over_200_epochs(build_pack: BuildPack) -> None:
    """Threads, open files and memory."""
    built = build_pack([[8, 8]], "tar", "jpeg", sizes=[(320, 240)])
    loader = Loader(built.root, batch_size=4, threads=2)

    def epochs(first: int, last: int) -> int:
        for epoch in range(first, last):
            loader.set_epoch(epoch)
            assert sum(len(labels) for _, labels in loader) == 16
        gc.collect()
        return resident()

    start = epochs(0, 40)
    files = len(os.listdir("/proc/self/fd"))
    # An epoch's pictures have 3.7 MB, its payloads 0.3: losing one in ten epochs would show.
    assert epochs(40, 240) - start < 6e6
    assert len(os.listdir("/proc/self/fd")) == files


def resident() -> int:
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
