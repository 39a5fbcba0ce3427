"""Compare a pack with what its source would give today, for `packer verify --against`.

The source is planned and converted again, in memory, and compared path by path: a picture that was
added or removed changes the positions of others, which does not count as a difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from packer.errors import DamageError, UsageError
from packer.files.regular import JSON_BYTES, parse_json, read_regular, reason
from packer.input import Input
from packer.pack.columns import read_path
from packer.pack.manifest import LEDGER_NAME, Manifest
from packer.pack.opened import Pack
from packer.packing.planning.job import Job, make_job
from packer.packing.shards.batch import BatchResult, BatchTask
from packer.packing.shards.state import describe_difference, skip_from_json
from packer.packing.workers.pool import Pool
from packer.reporting import Progress, Reporter
from packer.settings.options import ORDERS, ConvertOptions
from packer.types import display_path


@dataclass(frozen=True)
class SourceDifferences:
    """Differences between a pack and its source; paths as text.

    Attributes:
        missing: In the source, but neither in the pack nor in its ledger.
        extra: In the pack or in its ledger, but not in the source.
        changed: In both, but the source gives another picture, or one where there was none.
        relabelled: In both, but of another class or split in the source, or in another position
            although nothing is missing or extra.
        new_classes: Classes of the source that the pack lacks.
        old_classes: Classes of the pack that the source lacks.
        renumbered: Samples in both whose class has another number in the source.
        pictures: Number of pictures that were compared.
    """

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    relabelled: tuple[str, ...] = ()
    new_classes: tuple[str, ...] = ()
    old_classes: tuple[str, ...] = ()
    renumbered: int = 0
    pictures: int = 0

    @property
    def content(self) -> bool:
        """Return whether samples in both differ."""
        return bool(self.changed or self.relabelled)

    @property
    def any(self) -> bool:
        """Return whether anything differs."""
        return dataclasses.replace(self, pictures=0) != SourceDifferences()


def compare_source(
    folder: Path,
    manifest: Manifest,
    source: Input,
    pool: Pool[BatchTask, BatchResult],
    reporter: Reporter,
) -> SourceDifferences:
    """Compare a pack with what its source would give today.

    Args:
        folder: The pack.
        manifest: Its manifest.
        source: The source that it should have been made from.
        pool: Workers that make batches; started only if pictures are compared.
        reporter: Called with progress and notes.
    """
    job = make_job(source, options_of(folder, manifest), reporter, folder)
    packed = dict(_packed(folder, manifest))
    skipped = _skipped(folder / LEDGER_NAME)
    found = _compare_samples(job, manifest, packed, skipped)
    libraries = describe_difference(dict(manifest.libraries), dict(job.agreement.pack.libraries))
    if libraries:
        reporter.warn(f"made with {libraries}: pictures are not compared, paths and labels are")
        return found
    with pool:
        tasks = list(_tasks_of_both(job, packed.keys() | skipped))
        changed = tuple(_compare_pictures(tasks, packed, pool, reporter))
    pictures = sum(len(task.slots) for task in tasks)
    return dataclasses.replace(found, changed=changed, pictures=pictures)


def options_of(folder: Path, manifest: Manifest) -> ConvertOptions:
    """Return the options of a pack that determine its content.

    Raises:
        UsageError: One of them is unknown here.
    """
    options = dict(manifest.options)
    if (
        options.get("order") not in ORDERS
    ):  # set by PackWriter alone; the order of such a pack is not compared
        options.pop("order", None)
    known = {option.name for option in dataclasses.fields(ConvertOptions)}
    if unknown := sorted(options.keys() - known):
        raise UsageError(
            f"{folder}: made with an option that this packer does not know: {unknown[0]!r}",
            "pip install --upgrade packer-shards",
        )
    return ConvertOptions(**options)


def _skipped(ledger: Path) -> set[bytes]:
    """Return the paths that a ledger lists."""
    try:
        lines = read_regular(ledger, JSON_BYTES, follow=True).splitlines()
        return {skip_from_json(parse_json(line)).path for line in lines}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamageError(f"{ledger}: cannot be read: {reason(error)}") from error


@dataclass(frozen=True)
class _Packed:
    """A sample as the pack has it."""

    split: str
    slot: int
    label: int
    crc32: int


def _packed(folder: Path, manifest: Manifest) -> Iterator[tuple[bytes, _Packed]]:
    for name in manifest.splits:
        index = Pack(folder, name).index
        columns = (index[column].tolist() for column in ("slot", "label", "image.crc32"))
        for sample, row in enumerate(zip(*columns, strict=True)):
            yield read_path(index, sample), _Packed(name, *row)


def _compare_samples(
    job: Job, manifest: Manifest, packed: Mapping[bytes, _Packed], skipped: set[bytes]
) -> SourceDifferences:
    """Compare paths, classes, splits and positions; pictures are not read."""
    theirs = dict(_planned(job))
    missing = sorted(theirs.keys() - packed.keys() - skipped)
    extra = sorted((packed.keys() | skipped) - theirs.keys())
    planned = bool(manifest.listing_sha256)  # else made by code, or an excerpt
    ordered = planned and not missing and not extra
    relabelled, renumbered = [], 0
    for path in sorted(packed.keys() & theirs.keys()):
        ours, other = packed[path], theirs[path]
        if (
            _class(manifest.classes, ours.label) != _class(job.labelling.classes, other.label)
            or (planned and ours.split != other.split)
            or (ordered and ours.slot != other.slot)
        ):
            relabelled.append(path)
        else:
            renumbered += ours.label != other.label
    return SourceDifferences(
        missing=tuple(map(display_path, missing)),
        extra=tuple(map(display_path, extra)),
        relabelled=tuple(map(display_path, relabelled)),
        new_classes=tuple(sorted(set(job.labelling.classes) - set(manifest.classes))),
        old_classes=tuple(sorted(set(manifest.classes) - set(job.labelling.classes))),
        renumbered=renumbered,
    )


def _planned(job: Job) -> Iterator[tuple[bytes, _Packed]]:
    """Return the samples that the source would give, without their pictures."""
    for split, (first, end) in job.plan.splits.items():
        candidates = job.plan.candidate[first:end].tolist()
        labels = job.plan.label[first:end].tolist()
        for slot, candidate, label in zip(range(first, end), candidates, labels, strict=True):
            yield job.listing.paths[candidate], _Packed(split, slot, label, 0)


def _class(classes: Sequence[str], label: int) -> str | None:
    return classes[label] if label >= 0 else None


def _tasks_of_both(job: Job, paths: set[bytes]) -> Iterator[BatchTask]:
    """Return the samples to convert again: those in the pack, and skipped ones."""
    for shard in job.plan.shards():
        for task in job.tasks(shard):
            slots = tuple(slot for slot in task.slots if slot.path in paths)
            if slots:
                yield dataclasses.replace(task, slots=slots, fail=False)


def _compare_pictures(
    tasks: Sequence[BatchTask],
    packed: Mapping[bytes, _Packed],
    pool: Pool[BatchTask, BatchResult],
    reporter: Reporter,
) -> Iterator[str]:
    done, total = 0, sum(len(task.slots) for task in tasks)
    for batch in pool.run(tasks):
        for sample in batch.samples:
            expected = packed.get(sample.path)
            if expected is None or crc32(sample.payloads["image"]) != expected.crc32:
                yield display_path(sample.path)
        yield from (display_path(skip.path) for skip in batch.skips if skip.path in packed)
        done += len(batch.samples) + len(batch.skips)
        reporter.progress(Progress(done, total, fresh=done))
