"""Make one shard from the results of its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packer.errors import UsageError
from packer.pack.columns import ShardRecord
from packer.packing.planning.plan import ShardPlan
from packer.packing.shards.batch import BatchResult, one_batch
from packer.packing.shards.shard import ShardBuilder
from packer.packing.shards.state import ShardState, write_shard_state
from packer.types import Field, Sample, Skip


@dataclass(frozen=True)
class ShardTarget:
    """The description of a shard to make.

    Attributes:
        out: The pack's folder; its WORK_FOLDER exists.
        plan: The slots that it holds.
        name: File name.
        format: tar, lmdb, hdf5.
        fields: Fields of every sample.
        one_size: Whether all pictures have the same size.
        stamps: Stamps of its source files, see `packing.planning.stamps`.
        expected: Record that it must match, if it existed before; None: any.
        suspect: Probable cause of a difference from `expected`, for an error.
    """

    out: Path
    plan: ShardPlan
    name: str
    format: str
    fields: tuple[Field, ...]
    one_size: bool
    stamps: str
    expected: ShardRecord | None = None
    suspect: str = ""


def make_shard(
    target: ShardTarget, results: Iterator[BatchResult], report: Callable[[BatchResult], None]
) -> ShardState:
    """Write a shard and publish its state, its index and then itself.

    Args:
        target: The shard to make.
        results: Results of its batches in order, whole or in pieces; more may follow.
        report: Called with each result before it is written; an exception from it ends the shard.

    Raises:
        OutputError: The file system refused. No unfinished file remains.
        UsageError: The shard differs from `target.expected`.
    """
    builder = ShardBuilder(
        target.out, target.name, target.format, target.fields, one_size=target.one_size
    )
    skips: list[Skip] = []
    notes: Counter[str] = Counter()
    try:
        for _ in target.plan.batches:
            samples: list[Sample] = []
            for piece in one_batch(results):
                samples += piece.samples
                skips += piece.skips
                notes.update(piece.notes)
                report(piece)
            builder.add_batch(samples)
        state = ShardState(builder.finish(), tuple(skips), notes, target.stamps)
        _require_expected(target, state.record)
        write_shard_state(target.out, target.plan.stem, state)
        builder.publish()
    except BaseException:
        builder.abort()
        raise
    return state


def _require_expected(target: ShardTarget, record: ShardRecord) -> None:
    if target.expected is not None and record != target.expected:
        raise UsageError(
            f"{target.out / target.name}: made again, it is not what the manifest lists, as"
            f" something changed since then ({target.suspect})",
            "copy it again, convert with the earlier source and libraries, or convert with --force",
        )
