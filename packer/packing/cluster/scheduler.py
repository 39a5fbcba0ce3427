"""The connection to a dask scheduler, through dask's own client: nobody else imports dask."""

from __future__ import annotations

import contextlib
import logging
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from packer.errors import WorkerError

T = TypeVar("T")

#: Seconds to wait for the scheduler to answer, and for the client to say good-bye.
_CONNECT_SECONDS = 10
_CLOSE_SECONDS = 2
#: Bytes of a task from which on dask warns of it. A path is all that a task has of a picture, so
#: only shards of very many very small pictures come near dask's own 10 MB, and rightly so.
_LARGE_TASK = "1GB"


class Connection:
    """To one scheduler.

    Args:
        client: dask's.
        scheduler: What the user calls the scheduler.
    """

    def __init__(self, client: Any, scheduler: str) -> None:
        self.scheduler = scheduler
        self._client = client

    def threads(self) -> int:
        """Number of threads that all workers have together; they can come and go.

        Raises:
            WorkerError: The scheduler is gone. So do all others here.
        """
        counts: dict[str, int] = self._ask(self._client.nthreads)
        return sum(counts.values())

    def everywhere(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """What a function returns, or the error that it raises, at each worker, by address."""
        found: dict[str, Any] = self._ask(self._client.run, function, *arguments, on_error="return")
        return found

    def there(self, function: Callable[[], T]) -> T:
        """What a function returns, or raises, in the scheduler's own process."""
        found: T = self._ask(self._client.run_on_scheduler, function)
        return found

    def submit(
        self, function: Callable[..., Any], task: object, done: Callable[[Any], None]
    ) -> Any:
        """Hand a task to a free worker and return its future. `done` is called with the future
        when it is done, in another thread.
        """
        future = self._ask(self._client.submit, function, task, pure=False)
        future.add_done_callback(done)
        return future

    def died(self, future: Any) -> bool:
        """Whether dask gave up on a task that is done, as worker after worker died over it."""
        from distributed import KilledWorker

        return future.status == "error" and isinstance(self._ask(future.exception), KilledWorker)

    def result(self, future: Any) -> Any:
        """What the task that is done returned; raises what it raised."""
        if future.status == "error":
            raise self._ask(future.exception)
        if future.status == "cancelled":
            self.require()  # that is why, mostly
            raise WorkerError(
                f"{self.scheduler}: a task was cancelled by somebody else",
                "run the same command again to go on",
            )
        return self._ask(future.result)

    def cancel(self, futures: Sequence[Any]) -> None:
        """Take tasks back. Those that a worker is at go on there."""
        if futures and self._client.status == "running":
            # A scheduler that is gone in this moment has nothing to take back.
            with contextlib.suppress(Exception):
                self._client.cancel(futures, force=True)

    def require(self) -> None:
        """Check that the connection is there.

        Raises:
            WorkerError: It was lost.
        """
        if self._client.status != "running":
            raise self._gone()

    def _ask(self, call: Callable[..., T], *arguments: Any, **settings: Any) -> T:
        self.require()
        try:
            return call(*arguments, **settings)
        except (Exception, CancelledError) as error:
            # What the client raises when the scheduler is gone depends on the moment: OSError,
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
    """Connect for the time of the block.

    Args:
        scheduler: Its address, like tcp://HOST:8786, or the file that it wrote.

    Raises:
        WorkerError: It does not answer.
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
            # One that has lost its scheduler fails at this, in one way or another.
            with contextlib.suppress(Exception):
                client.close(timeout=_CLOSE_SECONDS)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without dask's own log lines on stderr: what they tell comes back as errors."""
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
    """An error of somebody else's, for a message of ours."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
