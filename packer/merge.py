"""`packer merge` as a function: join the parts of a pack that array jobs made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packer.errors import InUse, MissingShards, OutputError, PackerError, SourceError
from packer.files.fsio import list_folder, output_errors
from packer.files.paths import given_path
from packer.pack.manifest import Manifest, read_manifest
from packer.packing.finish import complete_pack, is_complete, tidy_complete
from packer.packing.lock import Lock
from packer.packing.planning.agreement import Agreement
from packer.packing.planning.plan import ShardPlan
from packer.packing.restoring import find_losses, restore_beside
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import ShardState, read_parts, read_plan, read_shard_state
from packer.packing.skips import allowed_skips
from packer.reporting import Reporter
from packer.wording import count

#: Most shards that an error names.
_SHOWN = 5
#: Seconds that the last parts wait for each other; each then holds its lock for milliseconds.
_LAST_SECONDS = 30.0
_LOOK_SECONDS = 0.2

__all__ = ["MergeResult", "merge_pack"]


@dataclass(frozen=True)
class MergeResult:
    """A complete pack.

    Attributes:
        out: The pack's folder, absolute.
        manifest: The pack's manifest.
        was_complete: Whether the pack was complete already; nothing was written.
        restored: Names of lost files of a complete pack that were made again.
    """

    out: Path
    manifest: Manifest
    was_complete: bool = False
    restored: tuple[str, ...] = ()


def merge_pack(
    out: str | os.PathLike[str],
    *,
    max_skipped: int | None = None,
    reporter: Reporter | None = None,
    job_name: str = "",
) -> MergeResult:
    """Join the parts of a pack: check that all shards are there, write indexes and manifest.

    Reads neither the source nor the shards. On a complete pack it makes lost files again, if that
    is possible without the source, and writes nothing else.

    Args:
        out: The pack's folder.
        max_skipped: How many samples may be skipped in all; None = max(1 % of the planned, 10).
        reporter: Receives notes and warnings.
        job_name: The batch system's name of this run, for messages of runs that need the folder.

    Raises:
        SourceError: There is nothing to join.
        MissingShards: Shards are missing; the error has the numbers of the parts to run again.
        TooManySkipped: More samples were skipped than `max_skipped`.
        OutputError: The file system refused, or a run is at work there.
    """
    folder = given_path(out, "out").absolute()
    reporter = reporter or Reporter()
    if not is_complete(folder):
        if not (folder / WORK_FOLDER).is_dir():
            read_manifest(folder)  # raises the right error
        try:
            return MergeResult(folder, _merge(folder, max_skipped, reporter, job_name))
        except PackerError:
            if not is_complete(folder):  # else another run completed it meanwhile
                raise
    manifest = read_manifest(folder)
    if find_losses(folder, manifest):
        return MergeResult(
            folder, manifest, restored=restore_beside(folder, manifest, reporter).names
        )
    tidy_complete(folder)
    return MergeResult(folder, manifest, was_complete=True)


def _merge(out: Path, max_skipped: int | None, reporter: Reporter, job_name: str) -> Manifest:
    with Lock(out / WORK_FOLDER, None, job_name, note=reporter.note) as lock:
        try:
            agreement = read_plan(out)
        except FileNotFoundError:
            raise SourceError(
                f"{out}: nothing to join: no part has begun", "run packer convert --part K/N"
            ) from None
        lock.keep_alive()
        states = read_shard_states(out, agreement, agreement.shards())
        require_all(out, agreement, states)
        reporter.note(f"joining {count(len(states), 'shard')}")
        lock.confirm()
        allowed = allowed_skips(agreement.planned, max_skipped)
        return complete_pack(out, agreement, states, allowed)


def merge_when_complete(
    out: Path, *, max_skipped: int | None, reporter: Reporter, job_name: str
) -> MergeResult | None:
    """Join the parts after the last one has finished. If several parts finish at the same time, one
    joins them and the others wait for it.

    Returns:
        None if another run holds the folder for longer.

    Raises:
        As `merge_pack`.
    """
    end = time.monotonic() + _LAST_SECONDS
    while True:
        try:
            return merge_pack(out, max_skipped=max_skipped, reporter=reporter, job_name=job_name)
        except InUse as error:
            if time.monotonic() > end:
                reporter.note(f"not joined here: {error.message}")
                return None
            time.sleep(_LOOK_SECONDS)


def read_shard_states(
    out: Path, agreement: Agreement, shards: Iterable[ShardPlan]
) -> dict[str, ShardState]:
    """States of the existing shards, by stem, from one listing of the folder.

    Raises:
        OutputError: A shard has another size than when it was made, or its state is damaged.
    """
    there = {entry.name: entry for entry in list_folder(out)}
    states = {}
    for shard in shards:
        name = agreement.shard_name(shard)
        if name not in there:
            continue
        state = states[shard.stem] = read_shard_state(out, shard.stem)
        with output_errors(out / name):
            size = there[name].stat().st_size
        if size != state.record.size:
            raise OutputError(
                f"{out / name}: has {size} bytes, but {state.record.size} were written",
                "remove it and run the same packer convert again",
            )
    return states


def require_all(out: Path, agreement: Agreement, states: dict[str, ShardState]) -> None:
    """Check that every shard is there.

    Raises:
        MissingShards: Shards are missing; the error has their names and the parts to run again.
    """
    shards = agreement.shards()
    missing = [number for number, shard in enumerate(shards) if shard.stem not in states]
    if not missing:
        return
    names = [agreement.shard_name(shards[number]) for number in missing]
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    parts = read_parts(out)
    again = sorted({number % parts for number in missing}) if parts else []
    hint = "run the same packer convert again"
    if parts:
        hint = f"run these of the {parts} parts again: --array={ranges(again)}"
    raise MissingShards(
        f"{out}: {len(missing)} of {len(shards)} shards are missing: {shown}", hint, names, again
    )


def ranges(numbers: Sequence[int]) -> str:
    """Format sorted numbers for SLURM's --array: "0,3-5"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
