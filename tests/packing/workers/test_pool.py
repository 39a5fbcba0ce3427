import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from packer.errors import ImageError, WorkerError
from packer.packing.workers.pool import Pool


def _square(number: int) -> int:
    time.sleep(0.01 * (number % 3))  # so that later tasks finish first
    return number * number


def _die_once(task: tuple[int, str]) -> int:
    number, marker = task
    if number == 4 and not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _die_always(number: int) -> int:
    if number == 4:
        os._exit(1)
    return number


def _fail(number: int) -> int:
    if number == 2:
        raise ImageError("truncated", "ends after 7 bytes")
    return number


def _str(task: object) -> str:
    return f"task {task}"


@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_results_come_in_order_with_a_bounded_number_in_flight(backend: str) -> None:
    taken = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for number in range(40):
            taken += 1
            yield number

    with Pool(_square, backend, 2, _str) as pool:
        for done, result in enumerate(pool.run(tasks())):
            assert result == done * done
            assert taken - done <= 7  # 2 workers x 3, and the one just taken
    assert taken == 40


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    with Pool(_die_once, "loky", 2, _str) as pool:
        assert list(pool.run((number, marker) for number in range(9))) == list(range(9))
    assert os.path.exists(marker)


def test_a_task_that_kills_its_worker_is_named() -> None:
    """A worker that dies hung runs and lost the file's name; the error must name the files in
    flight.
    """
    results: list[int] = []
    with (
        pytest.raises(WorkerError, match=r"died 3 times .* while at task 4"),
        Pool(_die_always, "loky", 2, _str) as pool,
    ):
        results.extend(pool.run(range(9)))
    assert results == [0, 1, 2, 3]


@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_an_error_of_a_task_arrives_as_itself(backend: str) -> None:
    with (
        pytest.raises(ImageError, match="ends after 7 bytes") as caught,
        Pool(_fail, backend, 2, _str) as pool,
    ):
        list(pool.run(range(9)))
    assert caught.value.reason == "truncated"


def test_leaving_early_ends_the_workers() -> None:
    with Pool(_pid, "loky", 2, _str) as pool:
        worker = next(pool.run(range(100)))
    assert _ends(worker)


def _pid(number: int) -> int:
    return os.getpid()


def _ends(pid: int) -> bool:
    return _wait(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _wait(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def _die_while_sending(task: tuple[int, str]) -> bytes:
    number, marker = task
    if number == 2 and not os.path.exists(marker):
        Path(marker).touch()
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(400_000_000)  # takes ten times as long to send as the worker lives
    return bytes(number)


def test_a_worker_killed_half_way_through_its_result_does_not_hang(tmp_path: Path) -> None:
    """loky's own thread waits for ever for the other half."""
    marker = str(tmp_path / "died")
    start = time.monotonic()
    with Pool(_die_while_sending, "loky", 2, _str) as pool:
        results = list(pool.run((number, marker) for number in range(6)))
    assert [len(result) for result in results] == list(range(6))
    assert time.monotonic() - start < 30
