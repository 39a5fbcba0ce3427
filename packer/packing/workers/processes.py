"""Workers that run a function: joblib's loky processes, or threads.

loky is used through its executor: `Parallel(return_as="generator")` takes the whole input without
waiting for the consumer, and loses the whole call when a worker is killed. This module adds two
things. Dead workers: loky's own thread waits for ever for the rest of a result whose writer was
killed half-way (joblib 1.6), so `lost` looks at the processes itself. Refused workers: everything
that loky needs starts at once, in this thread, so that a refusal is an error here instead of a
missing thread in loky.
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
from pathlib import Path
from typing import Any, Protocol, TypeVar

from packer.errors import INTERRUPTS, MissingDependency
from packer.imaging import memory
from packer.installing import install_line
from packer.packing.workers import handover, limits, lokyparts

T = TypeVar("T")
R = TypeVar("R")

#: Largest pipe buffer, in bytes, that Linux grants without privileges (/proc/sys/fs/pipe-max-size).
_PIPE_BYTES = 1 << 20
#: Seconds to wait until loky's thread has noticed that its processes are dead. It takes
#: milliseconds, unless the thread waits for the rest of a result.
_HALF_RESULT_SECONDS = 2.0
#: Seconds between two checks of a worker that its parent is alive.
_PARENT_SECONDS = 0.5
#: From <linux/prctl.h>: send this process a signal when the thread that created it ends.
_PR_SET_PDEATHSIG = 1


class NoWorkers(Exception):
    """The system refuses workers of this kind; the text is the reason, for a message."""


class Workers(Protocol):
    """Some workers."""

    def submit(self, function: Callable[[T], R], task: T) -> Future[Any]:
        """Hand a task to a free worker. This ends the validity of the last `result`.

        Raises:
            NoWorkers: The system refuses a worker that would start only now.
        """

    def result(self, future: Future[Any]) -> Any:
        """Return value of the function for a finished task; valid until the next call of
        `submit` or `result`.
        """

    def lost(self) -> bool:
        """Whether a worker died, so that results may never come."""

    def stop(self) -> None:
        """End all workers; unfinished tasks are lost."""


class ThreadWorkers:
    """Threads of this process."""

    def __init__(self, jobs: int) -> None:
        few = memory.at_once(jobs)
        memory.take_turns(threading.Semaphore(few) if few < jobs else None)
        self._executor = ThreadPoolExecutor(jobs)

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand a task to a free thread, or to a thread that starts now."""
        with _refusals():
            return self._executor.submit(function, task)

    def result(self, future: Future[R]) -> R:
        """Return value of the function."""
        return future.result()

    def lost(self) -> bool:
        """Always False: a thread does not die alone."""
        return False

    def stop(self) -> None:
        """Wait for the running tasks, and drop the waiting ones."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        memory.take_turns(None)


class ProcessWorkers:
    """Processes in which SIGINT and SIGTERM are blocked: Ctrl-C reaches the whole terminal group,
    and SLURM's SIGTERM the whole job step, but the parent decides when and how workers stop.

    Args:
        jobs: Number of processes.
        tasks: Largest number of tasks that are submitted at once.

    Raises:
        NoWorkers: The system refuses the processes; none is left running.
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
        _widen(lokyparts.result_pipe(self._executor))
        try:
            with _refusals(), _blocked_signals():
                lokyparts.start(self._executor)
        except BaseException:
            self.stop()
            raise

    def submit(self, function: Callable[[T], R], task: T) -> Future[Any]:
        """Hand a task to a free process. This ends the validity of the last `result`."""
        self._take_back()
        future: Future[Any]
        with _blocked_signals():
            if self._places is None:
                future = self._executor.submit(function, task)
            else:
                future = self._executor.submit(handover.call, function, task, self._places.take())
        return future

    def result(self, future: Future[Any]) -> Any:
        """Return value of the function; valid until the next call of `submit` or `result`."""
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
        """Whether a process or loky's thread has ended."""
        return lokyparts.has_lost_process(self._executor)

    def process_ids(self) -> list[int]:
        """Ids of the processes."""
        return lokyparts.process_ids(self._executor)

    def stop(self) -> None:
        """Kill all processes."""
        lokyparts.kill(self._executor, _HALF_RESULT_SECONDS)


def require_joblib() -> None:
    """Check that joblib is installed, and psutil or pgrep, with which joblib ends processes.

    Raises:
        MissingDependency: joblib is missing, or both of the others.
    """
    missing = [name for name in ("joblib", "psutil") if importlib.util.find_spec(name) is None]
    if missing and not (missing == ["psutil"] and shutil.which("pgrep")):
        raise MissingDependency(
            f"working on several cores needs {missing[0]}, which is not installed",
            f"{install_line(missing[0])}; or use --jobs 1",
        )


def _import_joblib() -> None:
    """Import joblib, without its warning on systems that have no semaphores.

    Raises:
        MissingDependency: joblib is not installed.
    """
    require_joblib()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        import joblib  # noqa: F401


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn a refusal by the system into `NoWorkers`."""
    from joblib.externals.loky.process_executor import LokyRecursionError

    try:
        yield
    except BrokenExecutor:
        raise  # workers started, and died
    except LokyRecursionError as error:
        raise NoWorkers("this is itself a worker process of joblib") from error
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        raise NoWorkers(limits.why_refused(error)) from error


def _widen(pipe: int) -> None:
    """Enlarge a pipe's buffer: fewer switches between writer and reader for each result."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux only; elsewhere the pipe keeps its size
        with contextlib.suppress(OSError):  # the user's limit of pipe memory is reached
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _context() -> tuple[Any, bool]:
    """Choose how processes start: the context, and whether they inherit memory.

    A fork takes 10 ms; loky's own start, a new Python with all its imports, takes 0.5 s. A fork is
    safe only in a process without other threads: the child would inherit their locks, and nothing
    would release them.
    """
    from joblib.externals.loky.backend import get_context as loky_context

    if sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1:
        return multiprocessing.get_context("fork"), True
    # Start the resource tracker now: loky would start it with its first worker, and that unblocks
    # signals, which would undo `_blocked_signals`.
    resource_tracker.ensure_running()
    return loky_context("loky"), False


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block SIGINT and SIGTERM, for processes and threads that start inside to inherit."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(parent: int, places: handover.Places | None, turns: Any) -> None:
    """Prepare a new worker process, in it."""
    memory.take_turns(turns)
    from packer.imaging.opencv import keep_to_one_thread

    keep_to_one_thread()
    if places is not None:
        handover.share(places)
    # loky collects garbage every second. In a forked worker that walks the parent's modules, 20 ms
    # each time, and they are never garbage.
    gc.freeze()
    try:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    except RuntimeError:  # at the limit of threads
        _end_with_its_maker()


def _end_with(parent: int) -> None:
    """End this process once its parent has ended.

    loky's workers hold each other's pipes open, so after a `kill -9` of their parent they would
    wait for work for ever.
    """
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _end_with_its_maker() -> None:
    """End this process with its parent, without a thread; works on Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
