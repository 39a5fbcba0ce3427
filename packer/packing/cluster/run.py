"""Make shards on the machines of a dask cluster.

A task makes and writes a whole shard (`packer.packing.cluster.remote`); its result is the shard's
state. If a worker dies, dask gives its shard to another worker. docs/decisions/0017-dask.md has
the reasons.
"""

from __future__ import annotations

import importlib.util
import queue
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packer.deferral import Deferral
from packer.errors import ConfigError, MissingDependency, PackerError, UsageError, WorkerError
from packer.files.fsio import remove_if_there, write_temp
from packer.installing import pip
from packer.packing.cluster import remote
from packer.packing.cluster.remote import RemoteResult, RemoteTask, Terms
from packer.packing.cluster.scheduler import Connection, connect, one_line
from packer.packing.planning.job import Job
from packer.packing.planning.plan import ShardPlan
from packer.packing.shards.shard import WORK_FOLDER
from packer.settings.options import ConvertOptions

#: Longest time in seconds until a signal or the loss of the scheduler takes effect.
_LOOK_SECONDS = 0.1
#: Seconds between two queries for the number of the cluster's threads.
_COUNT_SECONDS = 2.0


@dataclass(frozen=True)
class ClusterOrders:
    """How a run uses a cluster.

    Attributes:
        scheduler: Address of the scheduler, or path of its scheduler file.
        most: Largest number of shards in work at once; None = the cluster's number of threads.
        check: Called at least every 0.1 s; an error that it raises ends the run.
        note: Called with a line of text when the run waits for something.
    """

    scheduler: str
    most: int | None
    check: Callable[[], None]
    note: Callable[[str], None]


def require_cluster(options: ConvertOptions) -> None:
    """Check the options for a cluster, before any work.

    Raises:
        ConfigError: Options contradict each other, or the scheduler is missing.
        MissingDependency: dask's `distributed` is not installed.
    """
    if options.backend != "dask":
        if options.scheduler is not None:
            raise ConfigError("a scheduler is given, but not used", "add --backend dask")
        return
    if not options.scheduler:
        raise ConfigError(
            "backend dask needs the address of a scheduler",
            "--scheduler tcp://HOST:8786, or the file that dask scheduler --scheduler-file wrote",
        )
    if options.part is not None:
        raise ConfigError("--part and --backend dask both divide the work", "use one of them")
    if "://" not in options.scheduler and not Path(options.scheduler).is_file():
        raise ConfigError(
            f"{options.scheduler}: no such file, and no address like tcp://HOST:8786",
            "it is written by dask scheduler --scheduler-file FILE",
        )
    if importlib.util.find_spec("distributed") is None:
        raise MissingDependency(
            "backend dask needs distributed, which is not installed",
            f"{pip()} install 'packer-shards[dask]'",
        )


def make_on_cluster(
    out: Path, job: Job, shards: Sequence[ShardPlan], orders: ClusterOrders
) -> Generator[tuple[ShardPlan, RemoteResult], None, None]:
    """Make shards, and yield each as soon as it is finished. Closing the generator ends the work.

    Signals take effect while the generator waits for a result, see `packer.deferral`.

    Raises:
        UsageError, OutputError: A worker has other libraries, or reads other files.
        WorkerError: The scheduler cannot be reached or was lost. Or workers died while making
            some shards; all other shards are finished first.
        PackerError: An error on a worker, unchanged.
    """
    source, slots = job.given.source, next(job.tasks(shards[0])).slots
    path = next((slot.path for slot in slots if not slot.missing), slots[0].path)
    beacon = write_temp(out / WORK_FOLDER, "beacon", b"+")
    try:
        terms = Terms(beacon, job.agreement.pack.libraries, source, path, remote.look(source, path))
        tasks = (RemoteTask(terms, job.target(out, s), tuple(job.tasks(s))) for s in shards)
        with connect(orders.scheduler) as connection:
            cluster = Cluster(connection, orders)
            cluster.require(terms)
            with cluster.signals:
                for task, result in cluster.run(tasks):
                    yield task.target.plan, result
    finally:
        remove_if_there(beacon)


@dataclass
class Cluster:
    """The tasks of one run that are submitted to a scheduler.

    Args:
        connection: Connection to the scheduler.
        orders: How the run uses the cluster.
    """

    connection: Connection
    orders: ClusterOrders
    signals: Deferral = field(default_factory=Deferral, init=False)
    _flying: dict[str, tuple[RemoteTask, Any]] = field(default_factory=dict, init=False)
    _ready: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue, init=False)
    _again: set[str] = field(default_factory=set, init=False)
    _deadly: list[str] = field(default_factory=list, init=False)
    _threads: int | None = field(default=None, init=False)
    _counted: float = field(default=0.0, init=False)

    def require(self, terms: Terms) -> None:
        """Wait for a worker, then check that all workers can work on these terms.

        Raises:
            UsageError, OutputError: A worker cannot; the message names it and the reason.
            WorkerError: The scheduler was lost.
        """
        self._count()
        while not self._threads:
            time.sleep(_LOOK_SECONDS)
            self._look()
        try:
            version = self.connection.there(remote.packer_version)
            found = self.connection.everywhere(remote.refusal, terms)
        except WorkerError:
            raise
        except Exception as error:  # an error of unpickling there may have any type
            raise _unable(f"scheduler {self.orders.scheduler}", one_line(error)) from error
        if version != terms.libraries["packer"]:
            ours = terms.libraries["packer"]
            raise _unable(f"scheduler {self.orders.scheduler}", f"it has {version} and not {ours}")
        for address, refusal in sorted(found.items()):
            if isinstance(refusal, PackerError):
                raise refusal
            if refusal is not None:
                raise _unable(f"worker {address}", one_line(refusal))

    def run(self, tasks: Iterator[RemoteTask]) -> Iterator[tuple[RemoteTask, RemoteResult]]:
        """Yield results as they arrive.

        No more shards are submitted than there are threads: dask would count the death of a worker
        against a shard that only waited there for its turn.

        Raises:
            WorkerError: As for `make_on_cluster`.
            PackerError: An error on a worker, unchanged.
        """
        done = 0
        try:
            while True:
                self._look()
                while len(self._flying) < self._limit() and (task := next(tasks, None)) is not None:
                    self._submit(task)
                if not self._flying:
                    break
                try:
                    future = self._ready.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    continue
                task, _ = self._flying.pop(future.key)
                if self.connection.died(future):
                    self._take_death(task)
                    continue
                done += 1
                yield task, self.connection.result(future)
        finally:
            # Workers in the middle of a shard stop after the current batch: the beacon is removed.
            self.connection.cancel([future for _, future in self._flying.values()])
        if self._deadly:
            more = "" if len(self._deadly) == 1 else f" (and {len(self._deadly) - 1} more shards)"
            raise WorkerError(
                f"{self._deadly[0]}{more}; {done} other shards are made",
                "look at the workers' logs, then run the same command again to continue",
            )

    def _submit(self, task: RemoteTask) -> None:
        future = self.connection.submit(remote.make_remote_shard, task, self._ready.put)
        self._flying[future.key] = (task, future)

    def _look(self) -> None:
        """Check for signals, errors of `watch`, a lost scheduler, and other numbers of threads."""
        self.signals.check()
        self.orders.check()
        self.connection.require()
        if time.monotonic() - self._counted > _COUNT_SECONDS:
            self._count()

    def _count(self) -> None:
        threads = self.connection.threads()
        if not threads and self._threads != 0:
            self.orders.note("the cluster has no worker; waiting for one")
        self._threads = threads
        self._counted = time.monotonic()

    def _limit(self) -> int:
        """Largest number of submitted shards. Without workers, one waits at the scheduler."""
        threads = self._threads or 1
        return threads if self.orders.most is None else min(threads, self.orders.most)

    def _take_death(self, task: RemoteTask) -> None:
        """Handle a shard on which dask gave up, because worker after worker died with it."""
        files = remote.dead_at(task)
        if files is None and task.target.name not in self._again:
            # No worker had begun it: another shard, in work before it, killed them.
            self._again.add(task.target.name)
            self._submit(task)
            return
        self._deadly.append(
            f"{task.target.out / task.target.name}: workers died over it again and again"
            f" (killed, or out of memory?) while at {files or 'its start'}"
        )


def _unable(who: str, why: str) -> UsageError:
    return UsageError(
        f"{who}: cannot run this packer: {why}",
        "start scheduler and workers from an environment with the same packer",
    )
