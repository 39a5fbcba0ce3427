"""`packer convert` as a function: an image folder or archive becomes a pack."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import uuid
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from packer import formats
from packer.errors import InUse, OtherPack, OutputError, UsageError, WorkDone
from packer.files.fsio import list_folder, make_folder, real_path, remove_if_there
from packer.files.paths import given_path
from packer.imaging import libraries
from packer.input import Input, open_input
from packer.merge import merge_when_complete, read_shard_states
from packer.pack.manifest import Manifest, read_manifest
from packer.packing.cluster.run import ClusterOrders, make_on_cluster, require_cluster
from packer.packing.finish import complete_pack, is_complete, tidy_complete
from packer.packing.lock import Lock
from packer.packing.planning.agreement import Agreement
from packer.packing.planning.job import Job, make_job
from packer.packing.planning.plan import ShardPlan
from packer.packing.restoring import describe_losses, find_losses, restore_pack
from packer.packing.shards.batch import BatchResult, cut, describe_batch, make_batch
from packer.packing.shards.making import make_shard
from packer.packing.shards.shard import WORK_FOLDER, remove_own_temps
from packer.packing.shards.state import (
    PLAN_NAME,
    WRITER_NAME,
    ShardState,
    agree_on_parts,
    agree_on_plan,
    describe_difference,
    read_plan,
)
from packer.packing.skips import judge_skips
from packer.packing.tally import Tally
from packer.packing.workers.pool import Pool
from packer.raised import Contained
from packer.reporting import Reporter
from packer.settings.options import ConvertOptions, warnings_of
from packer.types import display_path
from packer.wording import count

__all__ = ["ConvertOptions", "ConvertResult", "convert_dataset"]


@dataclass(frozen=True)
class ConvertResult:
    """The result of a conversion.

    Attributes:
        out: The pack's folder, absolute; links in it are not followed.
        manifest: The pack's manifest; None if parts must still be made or joined.
        was_complete: Whether the pack was complete already; nothing was written.
        moved: New place of the earlier pack if --force moved it.
        missing: Number of shards that other parts still have to make.
        restored: Names of lost files of a complete pack that were made again.
    """

    out: Path
    manifest: Manifest | None
    was_complete: bool = False
    moved: Path | None = None
    missing: int = 0
    restored: tuple[str, ...] = ()


def convert_dataset(
    source: Input | str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ConvertOptions | None = None,
    *,
    force: bool = False,
    reporter: Reporter | None = None,
    job_name: str = "",
) -> ConvertResult:
    """Convert an image folder, archive or recipe into a pack.

    The same call continues an interrupted one. On a complete pack it compares options and source,
    makes files again that are missing or have another size, and writes nothing else.

    Args:
        source: A recipe's name, a folder, an archive, or an `Input` of `packer.input.open_input`.
        out: The pack's folder, or a link to it.
        options: How the pack is made; the defaults keep sizes and write tar shards of JPEGs.
        force: Move an earlier pack (or an unfinished one) at `out` away to `out`.old-<uuid>; if
            `out` is a link, beside the folder that it leads to.
        reporter: Receives notes, warnings and progress. Without one, Python's `warnings` reports
            options that have no effect.
        job_name: The batch system's name of this run, for messages of runs that need the folder.

    Raises:
        SourceError: The source is missing, empty or invalid.
        UsageError: `out` holds something else than this pack.
        OutputError: The file system refused.
        InUse: Another run is at work there.
        TooManySkipped: More samples were skipped than `options.max_skipped`.
        PackerError: With `on_error="fail"`, a picture cannot be stored.
    """
    folder = given_path(out, "out").absolute()
    options = options or ConvertOptions()
    libraries.require_converting()
    formats.require(options.format)
    require_cluster(options)
    given = source if isinstance(source, Input) else open_input(source)
    for text in warnings_of(dataclasses.replace(options, split=options.split or given.split)):
        if reporter is None:
            warnings.warn(text, stacklevel=2)
        else:
            reporter.warn(text)
    reporter = reporter or Reporter()
    if warning := libraries.overlap_warning():
        reporter.warn(warning)
    with Contained("converting"):  # errors of the reporter
        job = make_job(given, options, reporter, folder)
        moved = _move_away(folder, reporter) if force else None
        while not is_complete(folder):
            _require_empty_or_ours(folder)
            try:
                result = _convert(folder, job, reporter, job_name)
            except WorkDone:
                continue  # the files of that run show what is left to do
            except InUse:
                if not is_complete(folder):
                    raise
                continue
            if result is not None:
                return dataclasses.replace(result, moved=moved)
        return _keep_complete(folder, job, reporter)


def _convert(out: Path, job: Job, reporter: Reporter, job_name: str) -> ConvertResult | None:
    """Make missing shards; None if another run completed the pack meanwhile."""
    part, parts = job.options.part or (None, 0)
    # Check this before anything is written, so that the same command works once the files exist.
    judge_skips(job.missing(), job.planned, job.max_skipped)
    make_folder(out / WORK_FOLDER)
    with Lock(out / WORK_FOLDER, part, job_name, note=reporter.note) as lock:
        if is_complete(out):
            return None
        try:
            agreement = agree_on_plan(out, job.agreement)
        except UsageError:
            _name_changed_files(out, job)
            raise
        if parts:
            agree_on_parts(out, parts)
            _warn_of_idle_parts(parts, len(agreement.shards()), reporter)
        _remove_leftovers(out, job)
        try:
            states = _make_shards(out, job, reporter, lock)
            lock.confirm()
            if part is None:
                manifest = complete_pack(out, agreement, states, job.max_skipped)
                return ConvertResult(out, manifest)
            missing = _count_missing(out, agreement)
        except OutputError:
            lock.confirm()  # raises if a lost lock is the cause
            raise
        finally:
            remove_own_temps(out)
    if missing or not job.options.merge_when_complete:
        return ConvertResult(out, None, missing=missing)
    merged = merge_when_complete(
        out, max_skipped=job.options.max_skipped, reporter=reporter, job_name=job_name
    )
    return ConvertResult(out, merged.manifest if merged else None)


def _make_shards(out: Path, job: Job, reporter: Reporter, lock: Lock) -> dict[str, ShardState]:
    """Make the missing shards of this run; return the states of all its shards."""
    own = job.own_shards()
    states = read_shard_states(out, job.agreement, own)
    share = sum(shard.slots for shard in own)
    tally = Tally(job.planned, job.max_skipped, reporter, share)
    for shard in own:
        if shard.stem in states:
            _require_unchanged(out, job, shard, states[shard.stem])
            tally.add_earlier(shard.slots, states[shard.stem].skips)
    todo = [shard for shard in own if shard.stem not in states]
    if states and todo:
        reporter.note(f"continuing: {count(len(states), 'shard')} made, {len(todo)} to make")
    make = _on_cluster if job.options.backend == "dask" else _here
    with closing(make(out, job, todo, tally, lock)) as made:
        for stem, state in made:
            states[stem] = state
            record = state.record
            reporter.detail(f"{record.name}: {record.samples} images, {record.size:,} bytes")
    return states


def _here(
    out: Path, job: Job, todo: Sequence[ShardPlan], tally: Tally, lock: Lock
) -> Generator[tuple[str, ShardState], None, None]:
    """Make shards on this machine, one after the other; all cores make batches."""
    tasks = (task for shard in todo for task in job.tasks(shard))
    slots = sum(shard.slots for shard in todo)
    options, warn = job.options, tally.reporter.warn
    with Pool(make_batch, options.backend, options.jobs, describe_batch, warn) as pool:
        results = _guarded(pool.run(cut(tasks, slots, pool.size)), lock)
        for shard in todo:
            lock.confirm()
            yield shard.stem, make_shard(job.target(out, shard), results, tally.add_batch)


def _on_cluster(
    out: Path, job: Job, todo: Sequence[ShardPlan], tally: Tally, lock: Lock
) -> Generator[tuple[str, ShardState], None, None]:
    """Make shards on the machines of a dask cluster, in any order."""
    if not todo:
        return
    lock.keep_alive()  # nothing is forked here, and the first shard may take minutes
    orders = ClusterOrders(
        scheduler=job.options.scheduler or "",
        most=job.options.jobs,
        check=lock.check,
        note=tally.reporter.note,
    )
    with closing(make_on_cluster(out, job, todo, orders)) as results:
        for shard, result in results:
            lock.confirm()
            skips = result.state.skips
            tally.add(shard.slots, skips, read=result.read, written=result.written)
            yield shard.stem, result.state


def _guarded(results: Iterator[BatchResult], lock: Lock) -> Iterator[BatchResult]:
    """Yield results while the lock is held. The first result shows that the workers have started,
    so that the lock can start its thread: see `Lock.keep_alive`.
    """
    for result in results:
        lock.keep_alive()
        lock.check()
        yield result


def _require_unchanged(out: Path, job: Job, shard: ShardPlan, state: ShardState) -> None:
    """Check that the source files of a finished shard are unchanged."""
    changed = job.changed(shard, state.stamps)
    if changed:
        more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
        raise UsageError(
            f"{display_path(changed[0])}{more} of the source changed since"
            f" {out / state.record.name} was made",
            "start again with --force",
        )


def _name_changed_files(out: Path, job: Job) -> None:
    """If only the source differs, raise an error that names changed files of finished shards."""
    theirs, ours = read_plan(out), job.agreement
    same = dataclasses.replace(theirs.pack, listing_sha256=ours.pack.listing_sha256)
    if dataclasses.replace(theirs, pack=same, ignored=ours.ignored) == ours:
        states = read_shard_states(out, ours, ours.shards())
        for shard in ours.shards():
            if shard.stem in states:
                _require_unchanged(out, job, shard, states[shard.stem])


def _count_missing(out: Path, agreement: Agreement) -> int:
    names = {entry.name for entry in list_folder(out)}
    return sum(agreement.shard_name(shard) not in names for shard in agreement.shards())


def _warn_of_idle_parts(parts: int, shards: int, reporter: Reporter) -> None:
    if shards < parts:
        reporter.warn(
            f"{parts} parts share {shards} shards: parts {shards} to {parts - 1} have nothing to do"
            " (a smaller --shard-size makes more shards)"
        )


def _remove_leftovers(out: Path, job: Job) -> None:
    """Remove temporary files of dead runs. The caller holds the lock, so no other run uses them;
    files of other parts are kept.
    """
    stems = {shard.stem for shard in job.own_shards()}
    for path in (out / WORK_FOLDER).glob("*.tmp"):
        if job.options.part is None or path.name.split(".")[0] in stems:
            remove_if_there(path)


def _keep_complete(out: Path, job: Job, reporter: Reporter) -> ConvertResult:
    """Keep a complete pack if this job would make the same one; make its lost files again."""
    manifest, pack = read_manifest(out), job.agreement.pack
    theirs = {"options": manifest.options, "source listing": manifest.listing_sha256}
    ours = {"options": pack.options, "source listing": pack.listing_sha256}
    losses = find_losses(out, manifest)
    difference = describe_difference(theirs, ours)
    if difference:
        lost = f"; {describe_losses(losses)}" if losses else ""
        raise OtherPack(
            f"{out}: holds a complete pack with {difference}{lost}",
            "use another --out, or --force to move it away",
        )
    if not losses:
        tidy_complete(out)
        return ConvertResult(out, manifest, was_complete=True)
    make = _on_cluster if job.options.backend == "dask" else _here
    restored = restore_pack(out, manifest, job, make, reporter)
    whole = None if restored.missing else manifest
    return ConvertResult(out, whole, missing=restored.missing, restored=restored.names)


def _require_empty_or_ours(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: a file is in the way of this folder", "use another --out")
    if (out / WORK_FOLDER / WRITER_NAME).exists():
        raise UsageError(
            f"{out}: holds an unfinished pack of a PackWriter", "use another --out, or remove it"
        )
    if out.is_dir() and not (out / WORK_FOLDER).is_dir() and any(out.iterdir()):
        raise UsageError(
            f"{out}: is not empty and holds no pack", "use another --out, or an empty folder"
        )


def _move_away(out: Path, reporter: Reporter) -> Path | None:
    """Move an earlier pack aside; delete nothing. If OUT is a link, move the folder that it leads
    to: the new pack is made there, too.
    """
    out = real_path(out)
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not is_complete(out) and not (out / WORK_FOLDER / PLAN_NAME).exists():
        raise UsageError(f"{out}: holds no pack, so --force does not touch it", "use another --out")
    if (out / WORK_FOLDER).is_dir():
        # No other run may work there. The lock waits for a run that may be alive or may finish.
        with contextlib.suppress(WorkDone), Lock(out / WORK_FOLDER, None, note=reporter.note):
            pass
    aside = out.with_name(f"{out.name}.old-{uuid.uuid4()}")
    try:
        out.rename(aside)
    except OSError as error:
        raise OutputError(f"{out}: cannot be moved to {aside}: {error.strerror}") from error
    reporter.note(f"moved the earlier pack to {aside}")
    return aside
