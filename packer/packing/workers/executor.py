"""Execution backends of other distributions: executors as `concurrent.futures` defines them.

The entry-point group is `packer.backends`. MPI pools, Ray, submitit and dask all have such an
executor, so a backend is two functions.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol, TypeVar, cast

from packer import registry
from packer.errors import PackerError, WorkerError

T = TypeVar("T")
R = TypeVar("R")


class Backend(Protocol):
    """The shape of a backend's module."""

    def count_workers(self) -> int:
        """Number of workers that are used if the user gives no `--jobs`; at least 1."""

    def open_executor(self, jobs: int) -> Executor:
        """Start `jobs` workers.

        They run functions of packer, so packer, the codec and the source must be importable there,
        and see the source under the same path. Functions, tasks and results can be pickled. The
        main process writes the shards. It calls `shutdown(wait=True, cancel_futures=True)` at the
        end. A dead worker is a `concurrent.futures.BrokenExecutor` in the futures of its tasks:
        packer then opens a new executor and repeats them.
        """


PROTOCOL = Backend


class ExecutorWorkers:
    """Workers of another distribution's executor; see `packer.packing.workers.processes.Workers`.

    Args:
        backend: Name of the backend.
        jobs: Number of workers.

    Raises:
        UsageError: The backend cannot be loaded.
        WorkerError: It cannot start the workers.
    """

    def __init__(self, backend: str, jobs: int) -> None:
        module = load_backend(backend)
        try:
            self._executor = module.open_executor(jobs)
        except PackerError:
            raise
        except Exception as error:  # another author's module can raise anything
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise WorkerError(f"backend {backend!r} cannot start workers: {reason}") from error

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Hand a task to the executor."""
        return self._executor.submit(function, task)

    def result(self, future: Future[R]) -> R:
        """What the function returned."""
        return future.result()

    def lost(self) -> bool:
        """Never: an executor reports the death of a worker in the futures of its tasks."""
        return False

    def stop(self) -> None:
        """End the workers; what they are working on is lost."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def count_workers(backend: str) -> int:
    """Number of workers that a backend uses by itself."""
    return load_backend(backend).count_workers()


def is_plugin(backend: str) -> bool:
    """Whether a backend is one of another distribution."""
    return backend not in registry.own_names("backends")


def load_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UsageError: No such backend, or one that cannot be loaded.
    """
    return cast(Backend, registry.load("backends", name))
