"""Run a function over many tasks on all cores: results in order, few tasks in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from packer.cores import usable_cores
from packer.deferral import Deferral
from packer.errors import WorkerError
from packer.imaging.opencv import keep_to_one_thread
from packer.packing.workers.executor import ExecutorWorkers, count_workers, is_plugin
from packer.packing.workers.processes import (
    NoWorkers,
    ProcessWorkers,
    ThreadWorkers,
    Workers,
)

T = TypeVar("T")
R = TypeVar("R")

#: Tasks in flight for each worker: one in work, one in its queue, and one whose result waits while
#: the result before it is late.
_AHEAD = 3
#: Longest time in seconds until a signal or the death of a worker takes effect.
_LOOK_SECONDS = 0.1
#: Number of workers that may die in a row on the same task before the run gives up.
_ATTEMPTS = 3
#: By backend: the backend that replaces refused workers, and its description for the warning.
_INSTEAD = {
    "loky": ("threading", "the work is done in threads of this process"),
    "threading": ("sequential", "the work is done by this thread alone"),
}


@dataclass
class _Handed(Generic[T]):
    """A task, and its future once it is submitted."""

    task: T
    future: Future[Any] | None = None


@dataclass
class Pool(Generic[T, R]):
    """Workers for one function. Use it as a context manager: leaving it ends the workers.

    Signals take effect between two results, see `packer.deferral`.

    Args:
        function: Runs in the workers; a module-level function for processes.
        backend: loky, threading, sequential, or a backend of another distribution.
        jobs: Number of workers; None = the cores this process may use.
        describe: Returns a few words that name a task, for an error message.
        warn: Called with a line of text if the system refuses workers of this kind; threads, or
            this thread alone, replace them then.
    """

    function: Callable[[T], R]
    backend: str
    jobs: int | None
    describe: Callable[[T], str]
    warn: Callable[[str], None] = field(default=lambda text: None)
    _workers: Workers | None = field(default=None, init=False)
    _signals: Deferral = field(default_factory=Deferral, init=False)

    def __enter__(self) -> Pool[T, R]:
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._stop()
        self._signals.__exit__(kind)

    @property
    def size(self) -> int:
        """Number of workers.

        Raises:
            MissingDependency: joblib, which counts the cores, is not installed.
        """
        if self.backend == "sequential":
            return 1
        if self.jobs is None and is_plugin(self.backend):
            return count_workers(self.backend)
        return self.jobs or usable_cores()

    def run(self, tasks: Iterable[T]) -> Iterator[R]:
        """Yield results in the order of the tasks.

        Buffers in a result are valid until the next result is requested: they may lie in memory
        that the workers use again.

        Raises:
            WorkerError: 3 workers in a row died on the same task.
            MissingDependency: Several workers need joblib, which is not installed.
        """
        source = iter(tasks)
        waiting: deque[_Handed[T]] = deque()
        deaths = 0
        while (jobs := self._count()) > 1 or is_plugin(self.backend):
            while len(waiting) < jobs * _AHEAD and (task := next(source, None)) is not None:
                waiting.append(_Handed(task))
            if not waiting:
                return
            try:
                # After a second death submit one task at a time, to know which task kills workers.
                self._submit(islice(waiting, 1 if deaths > 1 else None), jobs)
                result = self._result(waiting[0])
            except NoWorkers as refusal:
                self._take_back(waiting)
                self._do_without(refusal)
                continue
            except BrokenExecutor as error:
                deaths += 1
                if deaths == _ATTEMPTS:
                    raise self._gave_up(waiting[0].task) from error
                self._take_back(waiting)
                continue
            deaths = 0
            waiting.popleft()
            yield result
            self._signals.check()
        for task in chain([handed.task for handed in waiting], source):
            yield self.function(task)
            self._signals.check()

    def _count(self) -> int:
        """Number of workers; cores are counted at the first call."""
        if self.jobs is None and self.backend != "sequential":
            self.jobs = self.size
        return self.size

    def _take_back(self, waiting: Iterable[_Handed[T]]) -> None:
        """End the workers, and mark all tasks as not submitted."""
        self._stop()
        for handed in waiting:
            handed.future = None

    def _do_without(self, refusal: NoWorkers) -> None:
        kind = "processes" if self.backend == "loky" else "threads"
        self.backend, instead = _INSTEAD[self.backend]
        if self.backend == "sequential":
            keep_to_one_thread()  # OpenCV's own threads would be refused as well
        self.warn(f"{self.jobs} worker {kind} cannot be started: {refusal}; {instead}")

    def _submit(self, waiting: Iterable[_Handed[T]], jobs: int) -> None:
        for handed in waiting:
            if handed.future is None:
                self._workers = self._workers or self._start(jobs)
                handed.future = self._workers.submit(self.function, handed.task)

    def _result(self, handed: _Handed[T]) -> R:
        assert handed.future is not None, "submitted before it is asked for"
        assert self._workers is not None, "started when it was submitted"
        while not wait([handed.future], _LOOK_SECONDS).done:
            self._signals.check()
            if self._workers.lost() and not wait([handed.future], _LOOK_SECONDS).done:
                raise BrokenProcessPool("a worker process ended")
        result: R = self._workers.result(handed.future)
        return result

    def _start(self, jobs: int) -> Workers:
        if self.backend == "threading":
            return ThreadWorkers(jobs)
        if is_plugin(self.backend):
            return ExecutorWorkers(self.backend, jobs)
        return ProcessWorkers(jobs, jobs * _AHEAD)

    def _stop(self) -> None:
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.stop()

    def _gave_up(self, task: T) -> WorkerError:
        return WorkerError(
            f"a worker process died {_ATTEMPTS} times (killed, or out of memory?)"
            f" while at {self.describe(task)}",
            "try fewer --jobs, then run the same command again",
        )
