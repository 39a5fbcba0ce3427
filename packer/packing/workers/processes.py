"""Workers that run a function: joblib's loky processes, or threads.

loky is used through its executor: `Parallel(return_as="generator")` takes the whole input without
waiting for the consumer, and loses the whole call when a worker is killed. What is added here is
what happens when workers die: loky's own thread waits for ever for the rest of a result whose
writer was killed half-way (joblib 1.6), so we look at the processes ourselves. And what happens
when the system refuses workers: all that loky needs is started at once, in this thread, so that a
refusal is an error here and not a thread of loky's that is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib.util
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

from packer.errors import INTERRUPTS, MissingDependency
from packer.imaging import memory
from packer.installing import install_line
from packer.packing.workers import handover, limits

T = TypeVar("T")
R = TypeVar("R")

#: What an unprivileged process may give one pipe on Linux (/proc/sys/fs/pipe-max-size).
_PIPE_BYTES = 1 << 20
#: Seconds in which loky's thread notices that its processes are dead, unless it waits for more of
#: a result; it takes milliseconds.
_HALF_RESULT_SECONDS = 2.0
#: Seconds between two looks of a worker for its parent.
_PARENT_SECONDS = 0.5
#: From <linux/prctl.h>: a signal for this process when the thread that made it ends.
_PR_SET_PDEATHSIG = 1


class NoWorkers(Exception):
    """The system refuses workers of this kind; the text says why, for a message."""


class Workers(Protocol):
    """Some workers."""

    def submit(self, function: Callable[[T], R], task: T) -> Future[Any]:
        """Hand a task to whoever is free. What `result` gave before is over.

        Raises:
            NoWorkers: A worker that starts only now cannot be had.
        """

    def result(self, future: Future[Any]) -> Any:
        """What the function returned for a task that is done; valid until the next call of
        `submit` or `result`.
        """

    def lost(self) -> bool:
        """Whether one of them died, so that results may never come."""

    def stop(self) -> None:
        """End them all; what they were at is lost."""


class ThreadWorkers:
    """Threads of this process."""

    def __init__(self, jobs: int) -> None:
        few = memory.at_once(jobs)
        memory.take_turns(threading.Semaphore(few) if few < jobs else None)
        self._executor = ThreadPoolExecutor(jobs)

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand a task to whoever is free, or to a thread that starts now."""
        with _refusals():
            return self._executor.submit(function, task)

    def result(self, future: Future[R]) -> R:
        """What the function returned."""
        return future.result()

    def lost(self) -> bool:
        """Never: threads do not die alone."""
        return False

    def stop(self) -> None:
        """Wait for what they are at, and drop what waits."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        memory.take_turns(None)


class ProcessWorkers:
    """Processes. They never see SIGINT and SIGTERM: Ctrl-C reaches the whole terminal group, and
    SLURM's SIGTERM the whole job step, but when and how workers stop is their parent's to say.

    Args:
        jobs: Number of processes.
        tasks: Most tasks that are with them at once.

    Raises:
        NoWorkers: They cannot be had here; none is left.
    """

    def __init__(self, jobs: int, tasks: int) -> None:
        _import_joblib()
        from joblib.externals.loky import ProcessPoolExecutor

        if multiprocessing.current_process().daemon:
            raise NoWorkers("this is a daemonic process, as in multiprocessing.Pool or Celery")
        with _refusals():
            context, inherits = _context()
            self._places = handover.make_places(tasks) if inherits else None
            self._lent: int | None = None  # the place of the result that is in use
            few = memory.at_once(jobs)
            turns = context.Semaphore(few) if few < jobs else None
            self._executor: Any = ProcessPoolExecutor(
                jobs,
                context=context,
                initializer=_start_worker,
                initargs=(os.getpid(), self._places, turns),
            )
        _widen(self._executor._result_queue._writer.fileno())
        try:
            with _refusals():
                self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        """Start the processes and loky's two threads: the processes first, as they may be forks."""
        calls = self._executor._call_queue
        with _blocked_signals():
            self._executor._ensure_executor_running()
            with calls._notempty:
                if calls._thread is None:
                    calls._start_thread()

    def submit(self, function: Callable[[T], R], task: T) -> Future[Any]:
        """Hand a task to whoever is free. What `result` gave before is over."""
        self._take_back()
        future: Future[Any]
        with _blocked_signals():
            if self._places is None:
                future = self._executor.submit(function, task)
            else:
                future = self._executor.submit(handover.call, function, task, self._places.take())
        return future

    def result(self, future: Future[Any]) -> Any:
        """What the function returned; valid until the next call of `submit` or `result`."""
        self._take_back()
        result = future.result()
        if self._places is None:
            return result
        self._lent = result.place
        return self._places.receive(result)

    def _take_back(self) -> None:
        if self._places is not None:
            self._places.give_back(self._lent)
            self._lent = None

    def lost(self) -> bool:
        """Whether a process has ended, or loky has noticed one already, or its thread has ended."""
        if self._executor._flags.broken is not None:
            return True
        if not self._executor._executor_manager_thread.is_alive():
            return True
        processes = list(self._executor._processes.values())
        return bool(wait([process.sentinel for process in processes], timeout=0))

    def stop(self) -> None:
        """Kill them. (loky's own kill_workers=True lets its thread fail with a KeyError.)"""
        for worker in list(self._executor._processes):
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(worker, signal.SIGKILL)
        thread = self._executor._executor_manager_thread
        if thread is None or thread.ident is None:  # refused, so nobody else looks after these
            for process in self._executor._processes.values():
                process.join()
            self._executor._executor_manager_thread = None
        else:
            thread.join(_HALF_RESULT_SECONDS)
            if thread.is_alive():
                # It waits for the rest of half a result. Ours is the last open end of that pipe.
                self._executor._result_queue._writer.close()
        self._executor.shutdown(wait=True)


def require_joblib() -> None:
    """Check that joblib is installed, and what it ends processes by: psutil, else pgrep.

    Raises:
        MissingDependency: One is missing.
    """
    missing = [name for name in ("joblib", "psutil") if importlib.util.find_spec(name) is None]
    if missing and not (missing == ["psutil"] and shutil.which("pgrep")):
        raise MissingDependency(
            f"working on several cores needs {missing[0]}, which is not installed",
            f"{install_line(missing[0])}; or use --jobs 1",
        )


def _import_joblib() -> None:
    """Import joblib, without its warning where there are no semaphores.

    Raises:
        MissingDependency: It is not installed.
    """
    require_joblib()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        import joblib  # noqa: F401


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the system refuses inside becomes a `NoWorkers`."""
    from joblib.externals.loky.process_executor import LokyRecursionError

    try:
        yield
    except BrokenExecutor:
        raise  # workers were there, and died
    except LokyRecursionError as error:
        raise NoWorkers("this is itself a worker process of joblib") from error
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        raise NoWorkers(limits.why_refused(error)) from error


def _widen(pipe: int) -> None:
    """Give a pipe room for more of a result: fewer switches between who writes and who reads."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux; else it stays as it is
        with contextlib.suppress(OSError):  # the user's allowance of pipe memory is used up
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _context() -> tuple[Any, bool]:
    """How processes start, and whether they inherit memory. A fork takes 10 ms where loky's own
    start, a new Python with all its imports, takes half a second; it is safe in a process that has
    no other thread, whose locks the child would inherit for ever.
    """
    from joblib.externals.loky.backend import get_context as loky_context

    if sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1:
        return multiprocessing.get_context("fork"), True
    # loky starts it with its first worker, and its start ends by unblocking signals, which would
    # undo `_blocked_signals`.
    resource_tracker.ensure_running()
    return loky_context("loky"), False


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """What is started inside inherits that SIGINT and SIGTERM are blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(parent: int, places: handover.Places | None, turns: Any) -> None:
    """In a new worker process."""
    memory.take_turns(turns)
    from packer.imaging.opencv import keep_to_one_thread

    keep_to_one_thread()
    if places is not None:
        handover.share(places)
    # loky collects garbage every second, and a forked worker has its parent's modules to go
    # through, 20 ms each time; what is there now stays.
    gc.freeze()
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    except RuntimeError:  # at the limit of threads
        _end_with_its_maker()


def _end_with(parent: int) -> None:
    """End this process once its parent is gone. loky's workers hold each other's pipes open, so
    after a `kill -9` of their parent they would wait for work for ever.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _end_with_its_maker() -> None:
    """The same without a thread, where the system can do it: Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
