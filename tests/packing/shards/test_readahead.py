from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from packer.errors import ImageError
from packer.packing.shards import readahead
from packer.packing.shards.readahead import PROBE, SLOW_SECONDS, THREADS, read_ahead
from packer.types import Listing


class _Slow:
    """A source that takes its time, as a network does, and knows how many wait at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.lock = threading.Lock()
        self.now = self.most = 0

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        raise NotImplementedError

    def read(self, path: bytes) -> bytes:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.seconds)
        with self.lock:
            self.now -= 1
        if path.endswith(b"gone"):
            raise ImageError("unreadable", "gone")
        return path * 2


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    readahead._batches_to_probe = 0
    yield
    readahead._batches_to_probe = 0


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 19, 20, 21, 128, 300])
@pytest.mark.parametrize("seconds", [0.0, 0.0005])
def test_files_come_in_order_and_errors_in_their_place(count: int, seconds: float) -> None:
    paths = [b"%d%s" % (number, b"gone" if number % 7 == 3 else b"") for number in range(count)]
    for _ in range(2):  # the second time without measuring
        found = list(read_ahead(_Slow(seconds), paths))
        assert len(found) == count
        for path, data in zip(paths, found, strict=True):
            if path.endswith(b"gone"):
                assert isinstance(data, ImageError)
            else:
                assert data == path * 2


def test_many_reads_are_under_way_where_files_are_slow() -> None:
    source = _Slow(0.005)
    assert len(list(read_ahead(source, [b"x"] * 200))) == 200
    assert source.most == THREADS


@pytest.mark.parametrize("wanted", [0, 1, 10, 200])
def test_no_thread_outlives_its_batch(wanted: int) -> None:
    """Whether it was read to its end or left: in a training process they would forbid a fork."""
    before = threading.active_count()
    files = read_ahead(_Slow(0.002), [b"x"] * 200)
    for _ in range(wanted):
        next(files)
    if wanted == 10:
        assert threading.active_count() > before
    files.close()
    assert threading.active_count() == before


class _Clock:
    """Time as a test has it pass: the machine's own, were it busy, would call any file slow."""

    def __init__(self) -> None:
        self.seconds = self.worked = 0.0

    def perf_counter(self) -> float:
        return self.seconds

    def thread_time(self) -> float:
        return self.worked


class _Timed(_Slow):
    """A source that waits and works by that clock."""

    def __init__(self, clock: _Clock, wait: float, work: float = 3e-5) -> None:
        super().__init__(wait)
        self.clock, self.work = clock, work

    def read(self, path: bytes) -> bytes:
        self.clock.seconds += self.seconds + self.work
        self.clock.worked += self.work
        return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(readahead, "time", clock)
    return clock


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files of each batch threads were asked for."""
    counts: list[int] = []

    def count(source: _Slow, paths: list[bytes]) -> Iterator[bytes]:
        counts.append(len(paths))
        return iter(paths)

    monkeypatch.setattr(readahead, "_in_threads", count)
    return counts


@pytest.mark.parametrize("work", [0.0, 3e-5, 1e-2])
def test_no_threads_where_files_are_quick(
    clock: _Clock, in_threads: list[int], work: float
) -> None:
    for _ in range(5):
        list(read_ahead(_Timed(clock, SLOW_SECONDS / 2, work), [b"x"] * 100))
    assert not in_threads


def test_waiting_is_measured_again_after_a_while(
    clock: _Clock, in_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readahead, "PROBE_EVERY", 3)
    source = _Timed(clock, 2 * SLOW_SECONDS)
    for _ in range(5):  # no batch among them is read file by file
        list(read_ahead(source, [b"x"] * 30))
    assert in_threads == [30 - PROBE, 30, 30, 30 - PROBE, 30]
    source.seconds = 0.0
    for _ in range(4):
        list(read_ahead(source, [b"x"] * 30))
    assert in_threads[5:] == [30]


@pytest.mark.parametrize("long", range(PROBE))
def test_one_interrupted_read_is_not_taken_for_a_slow_source(
    clock: _Clock, in_threads: list[int], long: int
) -> None:
    source = _Timed(clock, 0.0)
    files = read_ahead(source, [b"x"] * 30)
    for number in range(PROBE):
        source.seconds = 1.0 if number == long else 0.0
        next(files)
    assert len(list(files)) == 30 - PROBE
    assert not in_threads


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_files_come_all_the_same_where_threads_are_refused(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    started, start = 0, threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        nonlocal started
        if started == allowed:
            raise RuntimeError("can't start new thread")
        started += 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    readahead._batches_to_probe = 2  # as after slow files
    paths = [b"%d" % number for number in range(100)]
    source = _Slow(0.0)
    assert list(read_ahead(source, paths)) == [path * 2 for path in paths]
    assert source.most <= allowed + 1
