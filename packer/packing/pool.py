"""Runs a function over many tasks on all cores, results in order, a bounded number in flight.

The processes are joblib's loky. Its own `Parallel(return_as="generator")` takes the whole input
without waiting for the consumer, and loses the whole call when a worker is killed; its executor
lets us bound what is in flight and hand out again what a dead worker had.
"""

from __future__ import annotations

import importlib.util
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from packer.errors import MissingDependency, WorkerError

T = TypeVar("T")
R = TypeVar("R")

#: Tasks in flight for each worker: one it works on, one that waits for it, and one whose result
#: waits for its turn while a slow one is ahead of it.
_AHEAD = 3
#: How often in a row a worker may die on the same task before we give up.
_ATTEMPTS = 3


def usable_cores() -> int:
    """Cores that this process may use: affinity and control groups counted."""
    _require_joblib()
    from joblib import cpu_count

    return int(cpu_count())


def _require_joblib() -> None:
    if importlib.util.find_spec("joblib") is None:
        raise MissingDependency(
            "working on several cores needs joblib, which is not installed",
            "pip install 'packer-shards[convert]', or use --jobs 1",
        )


@dataclass
class _Handed(Generic[T, R]):
    """A task, and the result it will have once it is with a worker."""

    task: T
    future: Future[R] | None = None

    def result(self) -> R:
        assert self.future is not None, "submitted before it is asked for"
        return self.future.result()


@dataclass
class Pool(Generic[T, R]):
    """Workers for one function. Use it as a context manager: leaving it ends the workers.

    Args:
        function: Runs in the workers; a module-level function for processes.
        backend: loky, threading or sequential.
        jobs: Number of workers; None = the cores this process may use.
        describe: A few words on a task, for the error that names it.
    """

    function: Callable[[T], R]
    backend: str
    jobs: int | None
    describe: Callable[[T], str]
    _executor: Executor | None = field(default=None, init=False)

    def __enter__(self) -> Pool[T, R]:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def run(self, tasks: Iterable[T]) -> Iterator[R]:
        """Results in the order of the tasks.

        Raises:
            WorkerError: Workers died on the same task again and again.
        """
        jobs = self.jobs or usable_cores()
        if self.backend == "sequential" or jobs == 1:
            yield from map(self.function, tasks)
            return
        source = iter(tasks)
        waiting: deque[_Handed[T, R]] = deque()
        deaths = 0
        while True:
            while len(waiting) < jobs * _AHEAD and (task := next(source, None)) is not None:
                waiting.append(_Handed(task))
            if not waiting:
                return
            try:
                # After a second death one task at a time, so that the deadly one is known.
                self._submit(islice(waiting, 1 if deaths > 1 else None))
                result = waiting[0].result()
            except BrokenProcessPool as error:
                deaths += 1
                if deaths == _ATTEMPTS:
                    raise self._gave_up(waiting[0].task) from error
                self._stop()
                for handed in waiting:
                    handed.future = None
                continue
            deaths = 0
            waiting.popleft()
            yield result

    def _submit(self, waiting: Iterable[_Handed[T, R]]) -> None:
        for handed in waiting:
            if handed.future is None:
                self._executor = self._executor or self._start()
                handed.future = self._executor.submit(self.function, handed.task)

    def _gave_up(self, task: T) -> WorkerError:
        return WorkerError(
            f"a worker process died {_ATTEMPTS} times (killed, or out of memory?)"
            f" while at {self.describe(task)}",
            "try fewer --jobs, then run the same command again",
        )

    def _start(self) -> Executor:
        if self.backend == "threading":
            return ThreadPoolExecutor(self.jobs or usable_cores())
        from joblib.externals.loky import ProcessPoolExecutor

        executor: Executor = ProcessPoolExecutor(
            self.jobs or usable_cores(), initializer=_start_worker
        )
        return executor

    def _stop(self) -> None:
        executor, self._executor = self._executor, None
        if executor is None:
            return
        if self.backend == "threading":
            executor.shutdown(wait=True, cancel_futures=True)
        else:
            executor.shutdown(wait=True, kill_workers=True)  # type: ignore[call-arg]


def _start_worker() -> None:
    """In a new worker process: Ctrl-C reaches the whole terminal group, but is the parent's."""
    from packer.imaging.opencv import keep_to_one_thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_to_one_thread()
