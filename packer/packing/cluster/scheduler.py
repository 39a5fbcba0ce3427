"""Connection to a dask scheduler through dask's client; no other module imports dask."""

from __future__ import annotations

import contextlib
import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from packer.errors import WorkerError

T = TypeVar("T")

#: Seconds to wait for the scheduler's answer, and for the client to close.
_CONNECT_SECONDS = 10
_CLOSE_SECONDS = 2
#: Task size above which dask logs a warning. A task holds only a path per picture, so the default
#: of 10 MB is exceeded only by shards of very many small pictures, and they are legitimate.
_LARGE_TASK = "1GB"


class Connection:
    """Connection to one scheduler.

    Args:
        client: A client of dask.
        scheduler: The scheduler's address or file as given by the user, for messages.
    """

    def __init__(self, client: Any, scheduler: str) -> None:
        self.scheduler = scheduler
        self._client = client

    def threads(self) -> int:
        """Total number of threads of all workers; it changes as workers join and leave.

        Raises:
            WorkerError: The connection was lost. All methods but `cancel` raise it.
        """
        counts: dict[str, int] = self._ask(self._client.nthreads)
        return sum(counts.values())

    def everywhere(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """Run a function on each worker; results, or errors raised, by the worker's address."""
        found: dict[str, Any] = self._ask(self._client.run, function, *arguments, on_error="return")
        return found

    def there(self, function: Callable[[], T]) -> T:
        """Run a function in the scheduler's process; return its result or raise its error."""
        found: T = self._ask(self._client.run_on_scheduler, function)
        return found

    def submit(
        self, function: Callable[..., Any], task: object, done: Callable[[Any], None]
    ) -> Any:
        """Submit a task and return its future.

        `done` is called with the future in another thread, once the task is done.
        """
        future = self._ask(self._client.submit, function, task, pure=False)
        future.add_done_callback(done)
        return future

    def died(self, future: Any) -> bool:
        """Whether dask gave up on a finished task, because worker after worker died with it."""
        from distributed import KilledWorker

        return future.status == "error" and isinstance(self._ask(future.exception), KilledWorker)

    def result(self, future: Any) -> Any:
        """Result of a finished task; raises the task's error."""
        if future.status == "error":
            raise self._ask(future.exception)
        if future.status == "cancelled":
            self.require()  # most often the reason is a lost scheduler
            raise WorkerError(
                f"{self.scheduler}: a task was cancelled by somebody else",
                "run the same command again to continue",
            )
        return self._ask(future.result)

    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel tasks. A task that a worker has begun goes on there."""
        if futures and self._client.status == "running":
            # If the scheduler ends at this moment, there is nothing left to cancel.
            with contextlib.suppress(Exception):
                self._client.cancel(futures, force=True)

    def require(self) -> None:
        """Check that the connection is alive.

        Raises:
            WorkerError: The connection was lost.
        """
        if self._client.status != "running":
            raise self._gone()

    def _ask(self, call: Callable[..., T], *arguments: Any, **settings: Any) -> T:
        self.require()
        try:
            return call(*arguments, **settings)
        except (Exception, CancelledError) as error:
            # The type of the client's error after a lost connection depends on the moment: OSError,
            # CancelledError, or a plain Exception ("Tried sending message after closing").
            self.require()
            if isinstance(error, (OSError, CancelledError)):
                raise self._gone() from error
            raise

    def _gone(self) -> WorkerError:
        return WorkerError(
            f"{self.scheduler}: the connection to the dask scheduler was lost",
            "finished shards are kept: run the same command again with a scheduler that runs,"
            " or with --backend loky",
        )


@contextlib.contextmanager
def connect(scheduler: str) -> Iterator[Connection]:
    """Connect to a scheduler, for the duration of a `with` block.

    Args:
        scheduler: Address like tcp://HOST:8786, or path of the scheduler file.

    Raises:
        WorkerError: The scheduler does not answer.
    """
    import dask
    from distributed import Client

    where = {"address": scheduler} if "://" in scheduler else {"scheduler_file": scheduler}
    with (
        _quiet(),
        dask.config.set({"distributed.admin.large-graph-warning-threshold": _LARGE_TASK}),
    ):
        try:
            client = Client(**where, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise WorkerError(
                f"{scheduler}: no dask scheduler answers: {one_line(error)}",
                "check that it runs, and that this machine reaches it",
            ) from error
        try:
            yield Connection(client, scheduler)
        finally:
            # Closing fails, with various errors, if the connection was lost before.
            with contextlib.suppress(Exception):
                client.close(timeout=_CLOSE_SECONDS)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence dask's log lines on stderr: the same failures are raised as errors."""
    import distributed  # noqa: F401 - its import sets the levels of its loggers

    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def one_line(error: BaseException) -> str:
    """Text of another library's error in one line, for a message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
