"""The private parts of loky's executor that packer uses, each in one function.

loky has no public way to notice a dead process while its own thread waits for the rest of a
result, to kill its processes without an error in that thread, or to start everything in the
calling thread. The names below are those of the joblib versions in `TRIED`; setup.cfg allows no
others, and tests/packing/workers/test_lokyparts.py fails on them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from multiprocessing.connection import wait
from typing import Any

#: Series of joblib that these names were tried with.
TRIED = ("1.4", "1.5", "1.6")


def start(executor: Any) -> None:
    """Start the processes, then loky's two threads: in this order, as the processes may be forks.

    Args:
        executor: A `ProcessPoolExecutor` of loky.
    """
    calls = executor._call_queue
    executor._ensure_executor_running()
    with calls._notempty:
        if calls._thread is None:
            calls._start_thread()


def result_pipe(executor: Any) -> int:
    """File descriptor of the pipe through which results come."""
    return int(executor._result_queue._writer.fileno())


def process_ids(executor: Any) -> list[int]:
    """Ids of the worker processes."""
    return list(executor._processes)


def has_lost_process(executor: Any) -> bool:
    """Whether a process or loky's thread has ended, or loky has marked the executor as broken."""
    if executor._flags.broken is not None or not executor._executor_manager_thread.is_alive():
        return True
    processes = list(executor._processes.values())
    return bool(wait([process.sentinel for process in processes], timeout=0))


def kill(executor: Any, patience: float) -> None:
    """Kill the processes and end loky's threads.

    loky's own `shutdown(kill_workers=True)` raises a KeyError in its thread.

    Args:
        executor: As in `start`.
        patience: Seconds in which loky's thread must notice that its processes are dead.
    """
    for worker in process_ids(executor):
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.kill(worker, signal.SIGKILL)
    thread: threading.Thread | None = executor._executor_manager_thread
    if thread is None or thread.ident is None:  # never started, so it does not join the processes
        for process in executor._processes.values():
            process.join()
        executor._executor_manager_thread = None
    else:
        thread.join(patience)
        if thread.is_alive():
            # It waits for the rest of a result. This is the last open write end of that pipe.
            executor._result_queue._writer.close()
    executor.shutdown(wait=True)
