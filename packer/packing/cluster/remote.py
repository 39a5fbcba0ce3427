"""What is done on another machine: one whole shard, written where it is made.

A run of many machines has a beacon: a file in OUT/.packer under a name of its own, which the run's
client removes at its end. Who sees it works on the same folder for a run that goes on; who sees it
no more stops. An open file name is looked up anew on NFS, unlike a mere look for its existence.
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
    """What a machine must agree with the client on.

    Attributes:
        beacon: The run's beacon.
        libraries: Versions of packer and of the libraries that decide bytes.
        source: Where files are read from.
        path: One of its files.
        content: What the client read there, see `look`.
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
        terms: Checked anew with each shard, as workers come while a run is on.
        target: The shard.
        batches: Its batches, in order.
    """

    terms: Terms
    target: ShardTarget
    batches: tuple[BatchTask, ...]


@dataclass(frozen=True)
class RemoteResult:
    """One shard that is there.

    Attributes:
        state: As in its state file.
        read: Bytes of the files read.
        written: Bytes stored of them.
    """

    state: ShardState
    read: int
    written: int


def packer_version() -> str:
    """Version of packer alone, here: a scheduler, which handles tasks, needs no other library."""
    return packer.__version__


def look(source: Source, path: bytes) -> str:
    """What reading a file gives: a digest, or why it cannot be read."""
    try:
        return hashlib.sha256(source.read(path)).hexdigest()
    except PackerError as error:
        return error.message


def refusal(terms: Terms) -> PackerError | None:
    """Why this process cannot work on these terms, with the name of its machine; None if it can.

    Returned and not raised, as dask logs what is raised as a failure of its own.
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
        PackerError: The terms are not met, the run is over, or as `make_batch` and `make_shard`.
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
    """The files that workers were at when they died over a shard; None if it was not begun."""
    places: Counter[int] = Counter()
    for path in (task.target.out / WORK_FOLDER).glob(f"{task.target.plan.stem}.at.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # of one that was cut off, but lives
            # An empty one was just begun when its worker was killed.
            places[int(path.read_text("ascii") or 0)] += 1
    if not places:
        return None
    (most, _), *_ = places.most_common(1)
    return describe_batch(task.batches[most])


def _results(task: RemoteTask, mark: Path) -> Iterator[BatchResult]:
    """Made one after the other; the mark tells which one a worker died over."""
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
