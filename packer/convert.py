"""`packer convert` as a function: an image folder or archive becomes a pack."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packer import formats
from packer.errors import OutputError, PackerError, TooManySkipped, UsageError
from packer.fsio import make_folder, remove_if_there
from packer.imaging import libraries
from packer.input import Input, open_input
from packer.manifest import NAME, Manifest, read_manifest
from packer.options import ConvertOptions
from packer.packing.batch import BatchResult, describe_batch, make_batch
from packer.packing.finish import FinishedSplit, count, finish_pack, finish_split
from packer.packing.job import Job, make_job
from packer.packing.lock import Lock
from packer.packing.plan import ShardPlan
from packer.packing.pool import Pool
from packer.packing.shard import WORK_FOLDER, ShardBuilder
from packer.packing.state import (
    PLAN_NAME,
    ShardState,
    agree_on_plan,
    describe_difference,
    read_state,
    remove_work_folder,
    write_state,
)
from packer.reporting import Progress, Reporter
from packer.types import Skip, display_path

__all__ = ["ConvertOptions", "ConvertResult", "convert_dataset"]


@dataclass(frozen=True)
class ConvertResult:
    """What a conversion made.

    Attributes:
        out: The pack's folder, absolute.
        manifest: Of the pack; None when other parts are still to be made.
        was_complete: The pack was there already; nothing was written.
        moved: Where --force moved the earlier pack to.
    """

    out: Path
    manifest: Manifest | None
    was_complete: bool = False
    moved: Path | None = None


def convert_dataset(
    source: Input | str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ConvertOptions | None = None,
    *,
    force: bool = False,
    reporter: Reporter | None = None,
) -> ConvertResult:
    """Convert an image folder, archive or recipe into a pack.

    The same call goes on from where an interrupted one stopped; on a complete pack it compares
    options and source and writes nothing.

    Args:
        source: A recipe's name, a folder, an archive, or what `packer.input.open_input` opened.
        out: The pack's folder.
        options: What to make; the defaults keep sizes and write tar shards of JPEGs.
        force: Move an earlier pack (or an unfinished one) at `out` away to `out`.old-<uuid>.
        reporter: Hears what is going on.

    Raises:
        SourceError: The source is missing, empty or not what it should be.
        UsageError: `out` holds something else than this pack.
        OutputError: The file system refused, or another run is at work there.
        TooManySkipped: More samples were skipped than `options.max_skipped`.
        PackerError: With `on_error="fail"`, the first picture that cannot be stored.
    """
    options = options or ConvertOptions()
    reporter = reporter or Reporter()
    libraries.require_converting()
    formats.require(options.format)
    if warning := libraries.overlap_warning():
        reporter.warn(warning)
    given = source if isinstance(source, Input) else open_input(source)
    folder = Path(out).absolute()
    job = make_job(given, options, reporter)
    moved = _move_away(folder, reporter) if force else None
    if (folder / NAME).exists():
        return ConvertResult(folder, _compare_complete(folder, job), was_complete=True)
    _require_empty_or_ours(folder)
    make_folder(folder / WORK_FOLDER)
    part = options.part[0] if options.part else None
    with Lock(folder / WORK_FOLDER, part):
        agree_on_plan(folder, job.agreement())
        _remove_leftovers(folder, job)
        try:
            states = _make_shards(folder, job, reporter)
            if len(states) < sum(1 for _ in job.plan.shards()):
                return ConvertResult(folder, None, moved=moved)
            manifest = _finish(folder, job, states)
        finally:
            _remove_leftovers(folder, job)
    return ConvertResult(folder, manifest, moved=moved)


@dataclass
class _Tally:
    """Counts while a conversion runs, and the limit on what it may skip."""

    job: Job
    reporter: Reporter
    done: int = 0
    skips: list[Skip] = field(default_factory=list)
    read: int = 0
    written: int = 0
    fresh: int = 0

    def add_earlier(self, shard: ShardPlan, state: ShardState) -> None:
        self.done += shard.batches[-1][1] - shard.batches[0][0]
        self.skips += state.skips
        self._check()

    def add(self, result: BatchResult) -> None:
        dealt = len(result.samples) + len(result.skips)
        self.done += dealt
        self.fresh += dealt
        self.skips += result.skips
        self.read += result.read
        self.written += sum(len(sample.payloads["image"]) for sample in result.samples)
        self.reporter.progress(
            Progress(
                done=self.done,
                total=self.job.planned,
                skipped=len(self.skips),
                read=self.read,
                written=self.written,
                fresh=self.fresh,
            )
        )
        self._check()

    def _check(self) -> None:
        if len(self.skips) > self.job.max_skipped or len(self.skips) == self.job.planned:
            raise _too_many(self.skips, self.job)


def _make_shards(out: Path, job: Job, reporter: Reporter) -> dict[str, ShardState]:
    """Make the shards that are this run's and not there yet; returns the state of all there are."""
    states: dict[str, ShardState] = {}
    tally = _Tally(job, reporter)
    for shard in job.plan.shards():
        if (out / job.shard_name(shard)).exists():
            states[shard.stem] = _earlier_state(out, job, shard)
            tally.add_earlier(shard, states[shard.stem])
    todo = [shard for shard in job.own_shards() if shard.stem not in states]
    if states and todo:
        reporter.note(f"going on: {len(states)} shards are there, {len(todo)} to make")
    tasks = (task for shard in todo for task in job.tasks(shard))
    with Pool(make_batch, job.options.backend, job.options.jobs, describe_batch) as pool:
        results = pool.run(tasks)
        for shard in todo:
            states[shard.stem] = _make_shard(out, job, shard, results, tally)
            record = states[shard.stem].record
            reporter.detail(f"{record.name}: {record.samples} images, {record.size:,} bytes")
    return states


def _make_shard(
    out: Path, job: Job, shard: ShardPlan, results: Iterator[BatchResult], tally: _Tally
) -> ShardState:
    _remove_stale(out, shard)
    builder = ShardBuilder(
        out, job.shard_name(shard), job.options.format, job.fields, job.options.image.one_size
    )
    skips: list[Skip] = []
    notes: Counter[str] = Counter()
    try:
        for _ in shard.batches:
            result = next(results)
            builder.add_batch(result.samples)
            skips += result.skips
            notes.update(result.notes)
            tally.add(result)
        state = ShardState(builder.finish(), tuple(skips), notes, job.stamps(shard))
        write_state(out, shard.stem, state)
        builder.publish()
    except BaseException:
        builder.abort()
        raise
    return state


def _finish(out: Path, job: Job, states: dict[str, ShardState]) -> Manifest:
    splits = {}
    for name in job.plan.splits:
        records = [states[s.stem].record for s in job.plan.shards() if s.split == name]
        splits[name] = finish_split(out, job.fields, FinishedSplit(name, records))
    skips = [skip for state in states.values() for skip in state.skips]
    notes: Counter[str] = Counter()
    for state in states.values():
        notes.update(state.notes)
    counts = count(job.planned, skips, ignored=job.ignored(), notes=notes)
    manifest = job.manifest(splits, counts)
    finish_pack(out, manifest, skips)
    return manifest


def _earlier_state(out: Path, job: Job, shard: ShardPlan) -> ShardState:
    """State of a shard that an earlier run finished, if its source is still the same."""
    state = read_state(out, shard.stem)
    path = out / job.shard_name(shard)
    if path.stat().st_size != state.record.size:
        raise OutputError(
            f"{path}: has {path.stat().st_size} bytes, but {state.record.size} were written",
            "remove it and run the same command again",
        )
    if state.stamps != job.stamps(shard):
        raise UsageError(
            f"{path}: files of the source changed since this shard was made",
            "start anew with --force",
        )
    return state


def _remove_stale(out: Path, shard: ShardPlan) -> None:
    """Remove what a run left that died between a shard's state and its final name."""
    remove_if_there(out / WORK_FOLDER / f"{shard.stem}.json")
    remove_if_there(out / f"{shard.stem}.index")


def _remove_leftovers(out: Path, job: Job) -> None:
    """Remove temp files: of dead runs before the work, and after it what a signal, which can come
    between any two instructions, kept this run from removing. The caller holds the lock, so they
    are nobody else's.
    """
    stems = {shard.stem for shard in job.own_shards()}
    for path in (out / WORK_FOLDER).glob("*.tmp"):
        if job.options.part is None or path.name.split(".")[0] in stems:
            remove_if_there(path)


def _compare_complete(out: Path, job: Job) -> Manifest:
    """The manifest of a complete pack, if this job would make the same one."""
    manifest = read_manifest(out)
    theirs = {"options": manifest.options, "source listing": manifest.listing_sha256}
    ours = {"options": job.options.affecting_bytes(), "source listing": job.digest}
    difference = describe_difference(theirs, ours)
    if difference:
        raise UsageError(
            f"{out}: holds a complete pack with {difference}",
            "use another --out, or --force to move it away",
        )
    if (out / WORK_FOLDER).is_dir():  # killed between the manifest and the last clean-up
        with Lock(out / WORK_FOLDER, None):
            remove_work_folder(out)
    return manifest


def _require_empty_or_ours(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out}: a file is in the way of this folder", "use another --out")
    if out.is_dir() and not (out / WORK_FOLDER).is_dir() and any(out.iterdir()):
        raise UsageError(
            f"{out}: is not empty and holds no pack", "use another --out, or an empty folder"
        )


def _move_away(out: Path, reporter: Reporter) -> Path | None:
    """Move an earlier pack aside; delete nothing."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / NAME).exists() and not (out / WORK_FOLDER / PLAN_NAME).exists():
        raise UsageError(f"{out}: holds no pack, so --force does not touch it", "use another --out")
    aside = out.with_name(f"{out.name}.old-{uuid.uuid4()}")
    try:
        out.rename(aside)
    except OSError as error:
        raise OutputError(f"{out}: cannot be moved to {aside}: {error.strerror}") from error
    reporter.note(f"moved the earlier pack to {aside}")
    return aside


def _too_many(skips: list[Skip], job: Job) -> PackerError:
    reasons = Counter(skip.reason for skip in skips)
    shown = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    first = skips[0]
    example = f"first: {display_path(first.path)}: {first.detail}"
    if len(skips) == job.planned:
        return TooManySkipped(f"not one picture can be stored ({shown}; {example})")
    return TooManySkipped(
        f"{len(skips)} of {job.planned} pictures skipped, {job.max_skipped} allowed"
        f" ({shown}; {example})",
        "raise --max-skipped and run the same command again to go on",
    )
