"""Is a pack what its source would give today? Used by `packer verify --against`.

The source is planned and converted again, in memory, and compared sample by sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from packer.columns import read_path
from packer.input import Input
from packer.manifest import LEDGER_NAME, Manifest
from packer.options import ConvertOptions
from packer.packing.batch import BatchResult, BatchTask
from packer.packing.job import Job, make_job
from packer.packing.pool import Pool
from packer.packing.state import describe_difference, skip_from_json
from packer.reader.pack import Pack
from packer.reporting import Progress, Reporter
from packer.types import display_path


def compare_source(
    folder: Path,
    manifest: Manifest,
    source: Input,
    pool: Pool[BatchTask, BatchResult],
    reporter: Reporter,
) -> list[str]:
    """Lines on what differs between a pack and its source.

    Args:
        folder: The pack.
        manifest: Its manifest.
        source: What it should have been made from.
        pool: Workers that make batches; started only if pictures are compared.
        reporter: Hears what is going on.
    """
    options = {**manifest.options, "exclude_classes": tuple(manifest.options["exclude_classes"])}
    job = make_job(source, ConvertOptions(**options), reporter, folder)
    if job.labelling.classes != manifest.classes:
        return [f"{folder}: its classes are not those of {source.location}"]
    libraries = describe_difference(dict(manifest.libraries), dict(job.libraries))
    packed = dict(_packed(folder, manifest))
    ledger = (folder / LEDGER_NAME).read_text(encoding="utf-8")
    skipped = {skip_from_json(json.loads(line)).path for line in ledger.splitlines()}
    found = _compare_slots(job, packed, skipped)
    if libraries:
        reporter.warn(f"made with {libraries}: pictures are not compared, paths and labels are")
    elif not found:
        with pool:
            found = list(_compare_pictures(job, packed, pool, reporter))
    return [f"{folder}: {line}" for line in found]


@dataclass(frozen=True)
class _Packed:
    """What the index says of one sample."""

    slot: int
    label: int
    crc32: int


def _packed(folder: Path, manifest: Manifest) -> Iterator[tuple[bytes, _Packed]]:
    for name in manifest.splits:
        index = Pack(folder, name).index
        columns = (index[column].tolist() for column in ("slot", "label", "image.crc32"))
        for sample, row in enumerate(zip(*columns, strict=True)):
            yield read_path(index, sample), _Packed(*row)


def _compare_slots(job: Job, packed: dict[bytes, _Packed], skipped: set[bytes]) -> list[str]:
    """Every file of the source must be in its place in the pack, or in the ledger."""
    found = []
    for slot, candidate in enumerate(job.plan.candidate.tolist()):
        path = job.listing.paths[candidate]
        sample = packed.get(path)
        shown = display_path(path)
        if sample is None:
            if path not in skipped:
                found.append(f"{shown} is neither in the pack nor in its {LEDGER_NAME}")
        elif sample.label != int(job.plan.label[slot]):
            found.append(f"{shown} has label {sample.label}, not {int(job.plan.label[slot])}")
        elif sample.slot != slot:
            found.append(f"{shown} has slot {sample.slot}, not {slot}")
    planned = {job.listing.paths[candidate] for candidate in job.plan.candidate.tolist()}
    gone = sorted((packed.keys() | skipped) - planned)
    found += [f"{display_path(path)} is in the pack but not in the source" for path in gone]
    return found


def _compare_pictures(
    job: Job,
    packed: dict[bytes, _Packed],
    pool: Pool[BatchTask, BatchResult],
    reporter: Reporter,
) -> Iterator[str]:
    done = 0
    for batch in pool.run(task for shard in job.plan.shards() for task in job.tasks(shard)):
        for sample in batch.samples:
            expected = packed.get(sample.path)
            if expected is None or crc32(sample.payloads["image"]) != expected.crc32:
                yield f"{display_path(sample.path)} is another picture in the source"
        done += len(batch.samples) + len(batch.skips)
        reporter.progress(Progress(done, job.planned, fresh=done))
