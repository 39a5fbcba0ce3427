"""The connection alone, to a stand-in for dask's client; test_real.py has a real one."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import multiprocessing
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from packer.errors import WorkerError
from packer.packing.cluster.scheduler import Connection, connect, one_line

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
)


class Client:
    """Loses its scheduler during a call, or fails for another reason."""

    def __init__(self, error: BaseException | None = None, *, lost: bool = False) -> None:
        self.status = "running"
        self._error, self._lost = error, lost
        self.cancelled: list[object] = []

    def nthreads(self) -> dict[str, int]:
        if self._lost:
            self.status = "connecting"
        if self._error:
            raise self._error
        return {"tcp://a:1": 2, "tcp://b:1": 3}

    def cancel(self, futures: object, force: bool) -> None:
        self.cancelled.append(futures)
        raise OSError("cannot be sent")


def test_threads_of_all_workers_count() -> None:
    assert Connection(Client(), "s").threads() == 5


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (OSError("broken"), False),
        (asyncio.CancelledError("scheduler-connection-lost"), False),
        (Exception("Tried sending message after closing"), True),
    ],
)
def test_whatever_the_client_raises_a_lost_scheduler_is_one(
    error: BaseException, lost: bool
) -> None:
    connection = Connection(Client(error, lost=lost), "tcp://a:1")
    with pytest.raises(WorkerError, match=r"tcp://a:1: the connection .* was lost") as caught:
        connection.threads()
    assert "--backend loky" in caught.value.hint
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_another_error_is_not_taken_for_it() -> None:
    with pytest.raises(ZeroDivisionError):
        Connection(Client(ZeroDivisionError()), "s").threads()


def test_nothing_is_asked_of_a_lost_scheduler() -> None:
    client = Client()
    client.status = "closed"
    with pytest.raises(WorkerError):
        Connection(client, "s").threads()
    Connection(client, "s").cancel(["a"])
    assert client.cancelled == []


def test_cancelling_at_the_end_hides_no_other_error() -> None:
    client = Client()
    Connection(client, "s").cancel(["a"])
    assert client.cancelled == [["a"]]  # which failed


@needs_dask
def test_a_real_scheduler_and_worker_in_one_process(tmp_path: Path) -> None:
    """In another one than this: dask's threads outlive it, and tests that fork want none."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as another:
        another.submit(_try_real_scheduler, tmp_path).result(timeout=60)


def _try_real_scheduler(tmp_path: Path) -> None:
    """Loggers are as they were after it, and a task's own error arrives as itself."""
    from distributed import LocalCluster

    done: list[Any] = []
    levels = _levels()
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            local_directory=tmp_path,
        ) as c,
        connect(c.scheduler_address) as connection,
    ):
        assert connection.threads() == 1
        assert connection.there(_one) == 1
        assert list(connection.everywhere(abs, -3).values()) == [3]
        futures = [connection.submit(_half, number, done.append) for number in (6, 7)]
        assert connection.result(futures[0]) == 3
        _settle(lambda: len(done) == 2)
        assert not connection.died(futures[1])
        with pytest.raises(ValueError, match="7 is odd"):
            connection.result(futures[1])
    assert _levels() == levels


def _one() -> int:
    return 1


def _half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


def _levels() -> list[int]:
    import distributed  # noqa: F401 - sets them

    return [logging.getLogger(name).level for name in ("distributed", "distributed.client")]


def _settle(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_errors_of_others_come_in_one_line() -> None:
    assert one_line(ValueError("two\n  lines")) == "ValueError: two lines"
    assert one_line(KeyError()) == "KeyError"
