from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator

import pytest

from packer.errors import ImageError
from packer.packing import readahead
from packer.packing.readahead import THREADS, read_ahead
from packer.types import Listing


class _Slow:
    """A source that takes its time, as a network does, and knows how many wait at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.lock = threading.Lock()
        self.now = self.most = 0

    def scan(
        self, litter: Collection[bytes] = (), hear: Callable[[int], None] | None = None
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


def test_no_threads_where_files_are_quick() -> None:
    source = _Slow(0.0)
    source.read = lambda path: path  # type: ignore[method-assign]
    before = threading.active_count()
    for _ in range(5):
        list(read_ahead(source, [b"x"] * 100))
    assert threading.active_count() == before


def test_waiting_is_measured_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readahead, "PROBE_EVERY", 2)
    source = _Slow(0.002)
    for _ in range(2):
        list(read_ahead(source, [b"x"] * 30))
    source.seconds, source.most = 0.0, 0
    for _ in range(4):
        list(read_ahead(source, [b"x"] * 30))
    assert readahead._batches_to_probe == 0
