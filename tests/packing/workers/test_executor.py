from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from packer import registry
from packer.errors import ImageError, UsageError, WorkerError
from packer.packing.workers.executor import count_workers, is_plugin
from packer.packing.workers.pool import Pool


class Backend(types.ModuleType):
    """A module that another distribution could have."""

    def __init__(self, start: Callable[[int], Executor]) -> None:
        super().__init__("another_backend")
        self.start = start
        self.opened: list[int] = []

    def count_workers(self) -> int:
        return 3

    def open_executor(self, jobs: int) -> Executor:
        self.opened.append(jobs)
        return self.start(jobs)


def spawned(jobs: int) -> Executor:
    return ProcessPoolExecutor(jobs, get_context("spawn"))


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Backend]]:
    """offer(start) → the backend "another" of an installed distribution."""

    def offer(start: Callable[[int], Executor]) -> Backend:
        metadata = tmp_path / "site" / "packer_another-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: packer-another\nVersion: 1.0\n"
        )
        (metadata / "entry_points.txt").write_text("[packer.backends]\nanother = another_backend\n")
        monkeypatch.syspath_prepend(metadata.parent)
        module = Backend(start)
        monkeypatch.setitem(sys.modules, "another_backend", module)
        registry.forget()
        return module

    yield offer
    registry.forget()


def square(number: int) -> int:
    return number * number


def process(number: int) -> int:
    return os.getpid()


def die_once(task: tuple[int, str]) -> int:
    number, marker = task
    if number == 4 and not os.path.exists(marker):
        Path(marker).touch()
        os._exit(1)
    return number


def fail(number: int) -> int:
    if number == 2:
        raise ImageError("truncated", "ends after 7 bytes")
    return number


@pytest.mark.parametrize("jobs", [None, 1, 2])
def test_results_come_in_order(offer: Callable[..., Backend], jobs: int | None) -> None:
    """Also one worker is one of the backend's, not this process."""
    module = offer(ThreadPoolExecutor)
    with Pool(square, "another", jobs, str) as pool:
        assert list(pool.run(range(40))) == [number * number for number in range(40)]
        assert pool.size == (jobs or 3)
    assert module.opened == [jobs or 3]
    assert count_workers("another") == 3


def test_tasks_run_in_the_executor(offer: Callable[..., Backend]) -> None:
    offer(spawned)
    with Pool(process, "another", 1, str) as pool:
        assert os.getpid() not in set(pool.run(range(3)))


def test_a_dead_worker_is_replaced(offer: Callable[..., Backend], tmp_path: Path) -> None:
    module = offer(spawned)
    marker = str(tmp_path / "died")
    with Pool(die_once, "another", 1, str) as pool:
        assert list(pool.run((number, marker) for number in range(6))) == list(range(6))
    assert module.opened == [1, 1]


def test_an_error_of_a_task_arrives_as_itself(offer: Callable[..., Backend]) -> None:
    offer(ThreadPoolExecutor)
    with pytest.raises(ImageError, match="ends after 7"), Pool(fail, "another", 2, str) as pool:
        list(pool.run(range(9)))


def test_a_backend_that_cannot_start(offer: Callable[..., Backend]) -> None:
    def refuse(jobs: int) -> Executor:
        raise OSError("no MPI\nhere")

    offer(refuse)
    with (
        pytest.raises(WorkerError, match="'another' cannot start workers: OSError: no MPI here"),
        Pool(square, "another", 2, str) as pool,
    ):
        list(pool.run(range(9)))


def test_packers_own_are_no_plugins() -> None:
    assert not any(map(is_plugin, ("loky", "threading", "sequential", "dask")))
    with pytest.raises(UsageError, match=r"unknown backend 'lokky' .did you mean 'loky'"):
        count_workers("lokky")
