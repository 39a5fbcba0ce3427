"""Work on another machine: make one whole shard, and write it there.

A run on several machines has a beacon: a file in OUT/.packer with a unique name, which the client
removes when the run ends. A worker that can open the beacon works in the same folder, for a run
that goes on; a worker that cannot open it any more stops. Workers open it instead of testing that
it exists, because NFS looks up the name anew only for an open.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import packer
from packer import registry
from packer.errors import OutputError, PackerError, SourceError, UsageError
from packer.files.fsio import output_error, output_errors, remove_if_there
from packer.files.naming import temp_path
from packer.imaging.libraries import all_versions
from packer.imaging.opencv import keep_to_one_thread
from packer.packing.shards.batch import BatchResult, BatchTask, describe_batch, make_batch
from packer.packing.shards.making import ShardTarget, make_shard
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import ShardState, describe_difference
from packer.sources import Source
from packer.types import display_path


@dataclass(frozen=True)
class Terms:
    """Conditions under which a machine may work for the client.

    Attributes:
        beacon: Path of the run's beacon.
        libraries: Versions of packer and of the libraries on which stored bytes depend.
        source: The source of the files.
        path: One file of the source.
        content: Result of `look` at this file on the client.
    """

    beacon: Path
    libraries: Mapping[str, str]
    source: Source
    path: bytes
    content: str


@dataclass(frozen=True)
class RemoteTask:
    """One shard to make.

    Attributes:
        terms: Checked for each shard, because workers may join during a run.
        target: The shard to make.
        batches: The shard's batches, in order.
    """

    terms: Terms
    target: ShardTarget
    batches: tuple[BatchTask, ...]


@dataclass(frozen=True)
class RemoteResult:
    """One finished shard.

    Attributes:
        state: The content of the shard's state file.
        read: Bytes read from source files.
        written: Bytes of image payloads stored.
    """

    state: ShardState
    read: int
    written: int


def packer_version() -> str:
    """Version of packer on this machine: a scheduler needs no other library to pass on tasks."""
    return packer.__version__


def look(source: Source, path: bytes) -> str:
    """Digest of a file's content, or the error message if it cannot be read."""
    try:
        return hashlib.sha256(source.read(path)).hexdigest()
    except PackerError as error:
        return error.message


def refusal(terms: Terms) -> PackerError | None:
    """Error that keeps this process from working on these terms, with its machine's name, or None.

    Returned, not raised: dask logs raised errors as its own failures.
    """
    worker = f"worker on {socket.gethostname()} (process {os.getpid()})"
    plugins = registry.provenance_here(terms.libraries)
    difference = describe_difference(all_versions(plugins), terms.libraries)
    if difference:
        return UsageError(
            f"{worker}: has {difference}, so its pictures could differ",
            "install the same packer, imaging libraries and plug-ins on all machines",
        )
    try:
        _require_beacon(terms.beacon)
    except OutputError as error:
        return OutputError(
            f"{worker}: does not see the output folder: {error.message}",
            "the output must be in a file system that all machines share, under the same path",
        )
    found = look(terms.source, terms.path)
    if found != terms.content:
        return SourceError(
            f"{worker}: does not see the same source: {display_path(terms.path)}: {found}",
            "the source must be in a file system that all machines share, under the same path",
        )
    return None


def make_remote_shard(task: RemoteTask) -> RemoteResult:
    """Make one shard in this thread.

    Raises:
        PackerError: The terms are not met, the run is over, or an error of `make_batch` or
            `make_shard`.
    """
    refused = refusal(task.terms)
    if refused is not None:
        raise refused
    keep_to_one_thread()
    counts: Counter[str] = Counter()

    def report(result: BatchResult) -> None:
        _require_beacon(task.terms.beacon)
        counts["read"] += result.read
        counts["written"] += sum(len(sample.payloads["image"]) for sample in result.samples)

    mark = temp_path(task.target.out / WORK_FOLDER, f"{task.target.plan.stem}.at")
    try:
        state = make_shard(task.target, _results(task, mark), report)
    finally:
        remove_if_there(mark)
    return RemoteResult(state, counts["read"], counts["written"])


def dead_at(task: RemoteTask) -> str | None:
    """Files in work when workers died while making a shard; None if none had begun it."""
    places: Counter[int] = Counter()
    for path in (task.target.out / WORK_FOLDER).glob(f"{task.target.plan.stem}.at.*.tmp"):
        with contextlib.suppress(
            FileNotFoundError
        ):  # its worker lost the scheduler, but lives and removed it
            # An empty mark: its worker was killed between creating and writing it.
            places[int(path.read_text("ascii") or 0)] += 1
    if not places:
        return None
    (most, _), *_ = places.most_common(1)
    return describe_batch(task.batches[most])


def _results(task: RemoteTask, mark: Path) -> Iterator[BatchResult]:
    """Make batches one after the other; the mark holds the number of the current one."""
    for number, batch in enumerate(task.batches):
        with output_errors(mark):
            mark.write_text(str(number), "ascii")
        yield make_batch(batch)


def _require_beacon(beacon: Path) -> None:
    try:
        with beacon.open("rb") as file:
            file.read(1)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            raise OutputError(f"{beacon}: is not there; the run that made it is over") from None
        raise output_error(beacon, error) from error
