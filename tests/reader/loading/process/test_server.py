from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from packer.errors import WorkerError
from packer.reader.batches.material import Wanted
from packer.reader.loading.process.packed import unpack
from packer.reader.loading.process.server import End, Request, serve
from packer.reader.loading.process.shared import SharedSheets
from packer.types import Array
from tests.materials import MakeMaterial
from tests.packs import BuildPack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

Start = Callable[..., Any]


@pytest.fixture
def start() -> Iterator[Start]:
    """start(material, layout) → our end of the connection; the process is `start.process`."""
    context = multiprocessing.get_context("fork")
    processes = []

    def begin(material: Any, layout: Any) -> Any:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=((ours, theirs), material, layout, 2))
        process.start()
        theirs.close()
        processes.append((process, ours))
        return ours

    yield begin
    for process, ours in processes:
        ours.close()
        process.join(30)
        assert process.exitcode == 0


def test_replies_come_in_order_until_the_other_end_closes(
    build_pack: BuildPack, make_material: MakeMaterial, start: Start
) -> None:
    built = build_pack([[8]])
    connection = start(make_material(built, 2), None)
    for step in (0, 1, 2):
        connection.send(Request(1, Wanted(0, 0, step), None, False, ()))
    for step in (0, 1, 2):
        columns = connection.recv().made.columns
        assert columns["key"] == built.keys[2 * step : 2 * step + 2]
        pictures = unpack(columns["image"]).permute(0, 2, 3, 1)
        assert np.array_equal(pictures, built.pixels[2 * step : 2 * step + 2])
    connection.send(End(1))


def test_pictures_go_to_segments(
    build_pack: BuildPack, make_material: MakeMaterial, start: Start
) -> None:
    built = build_pack([[8]])
    material = make_material(built, 2)
    layout = material.layout()
    assert layout is not None
    connection = start(material, layout)
    segments = [SharedSheets(layout, 1).take().segment for _ in range(2)]
    for step, segment in enumerate(segments):
        connection.send(Request(1, Wanted(0, 0, step), step, True, ()))
        multiprocessing.reduction.send_handle(connection, segment.descriptor, None)
    for step, segment in enumerate(segments):
        assert connection.recv().made.in_sheet == 2
        assert np.array_equal(segment.array, built.pixels[2 * step : 2 * step + 2])
    connection.send(Request(2, Wanted(0, 0, 3), 1, False, (0,)))
    assert connection.recv().made.columns["key"] == built.keys[6:8]
    assert np.array_equal(segments[1].array, built.pixels[6:8])


class Odd(Exception):
    """Can be sent, but not be received."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} {other}")


def test_errors_with_their_type_or_at_least_their_text(
    build_pack: BuildPack, make_material: MakeMaterial, start: Start
) -> None:
    class Local(Exception):
        pass

    built = build_pack([[4]])

    def fail(pixels: Array) -> Any:
        for number, error in enumerate((ZeroDivisionError("zero"), Odd(1, 2), Local("here"))):
            if (pixels == built.pixels[number]).all():
                raise error
        return lambda: None

    connection = start(make_material(built, 1, transform=fail), None)
    for step in range(4):
        connection.send(Request(1, Wanted(0, 0, step), None, False, ()))
    replies = [connection.recv() for _ in range(4)]
    assert [reply.made for reply in replies] == [None] * 4
    assert [type(reply.error) for reply in replies] == [ZeroDivisionError, *[WorkerError] * 3]
    for reply, text in zip(
        replies, ("zero", "Odd: 1 2", "Local: here", "cannot be sent"), strict=True
    ):
        assert text in str(reply.error)
    assert all("in fail" in reply.traceback for reply in replies[:3])
    assert "class1/1.v1.jpg" in replies[1].traceback


def test_a_loop_that_ends_early_gets_all_replies(
    build_pack: BuildPack, make_material: MakeMaterial, start: Start
) -> None:
    """A segment that was named in a request is free only when its reply is there."""
    connection = start(make_material(build_pack([[8] * 4]), 2), None)
    for step in range(12):
        connection.send(Request(1, Wanted(0, 0, step), None, False, ()))
    connection.send(End(1))
    connection.send(Request(2, Wanted(0, 0, 15), None, False, ()))
    replies = [connection.recv() for _ in range(13)]
    assert replies[-1].made is not None


def test_it_ends_with_its_parent(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    """Also while another process holds the connection's end open."""
    material = make_material(build_pack([[8]]), 2)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        process: Any = context.Process(target=serve, args=((ours, theirs), material, None, 1))
        process.start()
        os.write(tell, b"%d" % process.pid)
        signal.pause()
    child = int(os.read(told, 20))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    for descriptor in (told, tell):
        os.close(descriptor)
    _wait_until_gone(child)
    ours.close()
    theirs.close()


def _wait_until_gone(pid: int) -> None:
    import time
    from pathlib import Path

    deadline = time.monotonic() + 20
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)
