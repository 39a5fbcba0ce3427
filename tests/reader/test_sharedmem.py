from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from packer.reader.sharedmem import SharedArray, anonymous_file

pytestmark = pytest.mark.filterwarnings(
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    "ignore:This process .*multi-threaded:DeprecationWarning"
)


def count_up(shared: SharedArray, times: int) -> None:
    for _ in range(times):
        with shared.locked() as numbers:
            before = int(numbers[1])
            os.sched_yield()
            numbers[1] = before + 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_share_it_and_keep_one_another_out(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    shared = SharedArray(3)
    shared.array[2] = 5
    processes = [context.Process(target=count_up, args=(shared, 300)) for _ in range(2)]
    for process in processes:
        process.start()
    count_up(shared, 300)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert shared.array.tolist() == [0, 900, 5]


def test_threads_keep_one_another_out() -> None:
    shared = SharedArray(2)
    threads = [threading.Thread(target=count_up, args=(shared, 300)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.array[1] == 900


def read_in_the_child(shared: SharedArray) -> None:
    with shared.locked() as numbers:
        numbers[0] = 7


def test_a_fork_while_another_thread_holds_the_lock() -> None:
    shared = SharedArray(1)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with shared.locked():
            held.set()
            done.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    process = multiprocessing.get_context("fork").Process(target=read_in_the_child, args=(shared,))
    process.start()
    process.join(30)
    thread.join()
    assert process.exitcode == 0
    assert shared.array[0] == 7


@pytest.mark.parametrize(
    "duplicate", [SharedArray.copy, copy.deepcopy, lambda old: pickle.loads(pickle.dumps(old))]
)
def test_copies_are_independent(duplicate: Any) -> None:
    shared = SharedArray(4, "uint8")
    shared.array[:] = [1, 2, 3, 4]
    other = duplicate(shared)
    shared.array[0] = 9
    assert other.array.tolist() == [1, 2, 3, 4]
    assert other.array.dtype == np.uint8
    with other.locked(), shared.locked():
        pass


def test_it_can_be_empty() -> None:
    assert SharedArray(0, "uint8").array.tolist() == []
    assert copy.deepcopy(SharedArray(0)).array.tolist() == []


@pytest.mark.parametrize("memfd", [True, False])
def test_descriptors_are_closed(memfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")
    before = len(os.listdir("/proc/self/fd"))
    shared = [SharedArray(8) for _ in range(3)]
    shared[0].array[0] = 1
    assert shared[1].array[0] == 0
    descriptor = anonymous_file(100)
    assert os.fstat(descriptor).st_size == 100
    os.close(descriptor)
    del shared
    assert len(os.listdir("/proc/self/fd")) == before
