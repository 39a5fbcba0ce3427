"""The private parts of loky, in the version of joblib that is installed."""

from __future__ import annotations

import configparser
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import pytest
from joblib.externals.loky import ProcessPoolExecutor

from packer.packing.workers import lokyparts as private

ROOT = Path(__file__).parents[3]


@pytest.fixture
def executor() -> Iterator[Any]:
    """Two started processes."""
    made = ProcessPoolExecutor(2)
    private.start(made)
    yield made
    private.kill(made, 10)


def test_this_series_of_joblib_was_tried() -> None:
    """Another series may name these parts differently. Run this file and test_processes.py,
    test_pool.py and test_limits.py with it, then add it to TRIED and to setup.cfg.
    """
    assert ".".join(joblib.__version__.split(".")[:2]) in private.TRIED


def test_setup_allows_the_series_that_were_tried() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    major, minor = map(int, private.TRIED[-1].split("."))
    for extra in ("convert", "convert-pillow"):
        found = re.findall(r"^joblib (.*)$", config["options.extras_require"][extra], re.M)
        assert found == [f">= {private.TRIED[0]}, < {major}.{minor + 1}"], extra


def test_start_starts_processes_and_threads(executor: Any) -> None:
    assert len(private.process_ids(executor)) == 2
    assert all(Path(f"/proc/{pid}").exists() for pid in private.process_ids(executor))
    assert executor._executor_manager_thread.is_alive()
    assert executor._call_queue._thread.is_alive()
    assert executor.submit(abs, -1).result(60) == 1


def test_results_come_through_the_pipe(executor: Any) -> None:
    assert "pipe:" in os.readlink(f"/proc/self/fd/{private.result_pipe(executor)}")


def test_a_killed_process_is_lost(executor: Any) -> None:
    assert not private.has_lost_process(executor)
    os.kill(private.process_ids(executor)[0], signal.SIGKILL)
    end = time.monotonic() + 60
    while not private.has_lost_process(executor):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_kill_leaves_neither_processes_nor_threads() -> None:
    before = set(threading.enumerate())
    made = ProcessPoolExecutor(2)
    private.start(made)
    future = made.submit(time.sleep, 600)
    pids = private.process_ids(made)
    private.kill(made, 10)
    assert future.done()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before
