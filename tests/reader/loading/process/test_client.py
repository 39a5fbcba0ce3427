from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.errors import UsageError, WorkerError
from packer.reader.batches.material import Wanted
from packer.reader.loading.process.client import Remote
from packer.types import Array
from tests.materials import MakeMaterial
from tests.packs import BuildPack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]


@pytest.fixture
def remotes() -> Iterator[list[Remote]]:
    started: list[Remote] = []
    yield started
    for remote in started:
        remote.stop()
        assert remote._process.exitcode is not None


def started(remotes: list[Remote], material: Any, keep: int = 2) -> Remote:
    remotes.append(Remote(material, 2, keep, "fork"))
    return remotes[-1]


def test_mini_batches_in_segments(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    built = build_pack([[8]])
    remote = started(remotes, make_material(built, 2))
    assert remote.sheets is not None
    loop = remote.begin()
    pending = []
    for step in range(4):
        sheet = remote.sheets.take()
        pending.append((loop.submit(Wanted(0, 0, step), sheet), sheet))
    for step, (reply, sheet) in enumerate(pending):
        assert reply.result().columns["key"] == built.keys[2 * step : 2 * step + 2]
        pictures = sheet.tensor(2).permute(0, 2, 3, 1)
        assert np.array_equal(pictures, built.pixels[2 * step : 2 * step + 2])
    loop.close()


def test_segments_of_a_loop_that_was_left_come_back(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    """But not before the other process has finished with them."""
    remote = started(remotes, make_material(build_pack([[8] * 4]), 2), keep=9)
    assert remote.sheets is not None
    for _ in range(5):
        loop = remote.begin()
        for step in range(6):
            loop.submit(Wanted(0, 0, step), remote.sheets.take())
        loop.close()
    last = remote.begin().submit(Wanted(0, 0, 0), remote.sheets.take())
    assert len(last.result().columns["key"]) == 2
    assert len(remote.sheets._lending._free) == min(9, remote.sheets._segments.made - 1)


def shared_maps(remote: Remote) -> int:
    """Shared memory of packer that the other process maps."""
    maps = Path(f"/proc/{remote._process.pid}/maps")
    return maps.read_text().count("/memfd:packer") if sys.platform == "linux" else 0


def test_segments_beyond_those_that_are_kept_are_dropped(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    remote = started(remotes, make_material(build_pack([[8]]), 2), keep=1)
    assert remote.sheets is not None
    before = shared_maps(remote)  # a forked process has those of its parent
    for _ in range(3):
        loop = remote.begin()
        held = []
        for step in range(4):
            sheet = remote.sheets.take()
            made = loop.submit(Wanted(0, 0, step), sheet).result()
            assert made.in_sheet == 2
            held.append(sheet.tensor(2))
        loop.close()
        del held, sheet
    assert remote.sheets._segments.made == 4 + 3 + 3
    assert remote.begin().submit(Wanted(0, 0, 0), remote.sheets.take()).result()
    if sys.platform == "linux":
        assert shared_maps(remote) == before + 1


def test_killed_it_is_an_error_that_says_so(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    """A loop must not hang when its process is killed: during a request, and before it."""

    def wait(pixels: Array) -> Array:
        time.sleep(30)
        return pixels

    remote = started(remotes, make_material(build_pack([[8]]), 2, transform=wait))
    reply = remote.begin().submit(Wanted(0, 0, 0), None)
    threading.Timer(0.3, os.kill, (remote._process.pid, signal.SIGKILL)).start()
    begun = time.monotonic()
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        reply.result()
    assert time.monotonic() - begun < 20
    assert not remote.usable
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        remote.begin().submit(Wanted(0, 0, 0), None)


def test_one_that_exits_by_itself(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    def leave(pixels: Array) -> Array:
        os._exit(7)

    remote = started(remotes, make_material(build_pack([[8]]), 2, transform=leave))
    with pytest.raises(WorkerError, match="ended with exit code 7"):
        remote.begin().submit(Wanted(0, 0, 0), None).result()


def test_half_a_message_is_the_last(
    build_pack: BuildPack, make_material: MakeMaterial, remotes: list[Remote]
) -> None:
    """Ctrl-C in the middle of one: nothing that comes after it could be understood."""
    remote = started(remotes, make_material(build_pack([[8]]), 2))
    reply = remote.begin().submit(Wanted(0, 0, 0), None)

    def interrupted() -> None:
        raise KeyboardInterrupt

    remote._connection.recv = interrupted
    with pytest.raises(KeyboardInterrupt):
        reply.result()
    assert not remote.usable


def test_not_in_worker_processes_and_not_by_any_method(
    build_pack: BuildPack, make_material: MakeMaterial, monkeypatch: pytest.MonkeyPatch
) -> None:
    import multiprocessing

    material = make_material(build_pack([[8]]), 2)
    with pytest.raises(UsageError, match="process 'forked'"):
        Remote(material, 2, 2, "forked")
    current = multiprocessing.current_process()
    monkeypatch.setitem(current._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="cannot run in a worker process"):
        Remote(material, 2, 2, None)


def test_no_fork_while_other_threads_run(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    """A fork copies locks that other threads hold, and nothing releases them in the child. It
    happened with a lock of Python's import system: a thread was importing a part of numpy.
    """
    material = make_material(build_pack([[8]]), 2)
    ready = threading.Event()
    other = threading.Thread(target=ready.wait, name="busy")
    other.start()
    try:
        with pytest.raises(UsageError, match="'busy'") as caught:
            Remote(material, 2, 2, "fork")
        assert "process='spawn'" in caught.value.hint
    finally:
        ready.set()
        other.join()
    Remote(material, 2, 2, "fork").stop()
