"""Compare a pack with its manifest: `packer verify` as a function.

Each split is opened as a reader opens it. Every file's size and SHA-256 are compared. If a shard
differs, and always with `decode`, samples are read one by one, so that the damaged ones are named.
With `sample`, the shards' digests are not compared, as that would need all their bytes.
"""

from __future__ import annotations

import os
import random
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from packer.errors import DamageError, UsageError
from packer.files.fsio import READ_BYTES
from packer.files.paths import given_path
from packer.files.regular import open_regular
from packer.input import Input
from packer.pack.manifest import LEDGER_NAME, Manifest, SplitRecord, read_manifest
from packer.pack.opened import Pack
from packer.pack.payloads import Payloads
from packer.packing.shards.batch import describe_batch, make_batch
from packer.packing.workers.pool import Pool
from packer.reporting import Reporter
from packer.verify.against import SourceDifferences, compare_source
from packer.verify.repair import Repair, make_missing, repair_pack
from packer.verify.shards import (
    ListedFile,
    ReadTask,
    compare_file,
    name_batch,
    name_file,
    read_batch,
)
from packer.verify.subset import ComparedBytes, Subset, Work
from packer.wording import count


@dataclass
class VerifyResult:
    """Counts of compared files and samples, and the differences.

    Attributes:
        samples: Samples in the pack.
        shards: Shards in the pack.
        files: Files in the pack, without its manifest.
        compared: Files whose bytes were compared.
        decoded: Samples that were read one by one.
        is_stopped: Whether the time was up before everything was verified.
        damage: One line for each damage; empty if there is none.
        against: Differences from its source; None if that was not compared.
        repair: The repair of damaged files; None if there was none.
    """

    samples: int = 0
    shards: int = 0
    files: int = 0
    compared: int = 0
    decoded: int = 0
    is_stopped: bool = False
    damage: list[str] = field(default_factory=list)
    against: SourceDifferences | None = None
    repair: Repair | None = None


@dataclass(frozen=True)
class VerifyOptions:
    """What to compare, and how.

    Attributes:
        decode: Decode every picture.
        against: Source to convert again and compare with, sample by sample, if nothing is damaged.
        jobs: Worker processes; None = the cores this process may use.
        backend: loky, threading, sequential.
        sample: Read the samples of these batches, and compare no shard as a whole.
        minutes: Start no further task after that time. The order of the shards is then random, so
            that another run starts with others.
        repair: Move files that differ aside, and make them again: with `against` all of them,
            otherwise those that can be made without the source.
    """

    decode: bool = False
    against: Input | None = None
    jobs: int | None = None
    backend: str = "loky"
    sample: Subset | None = None
    minutes: float | None = None
    repair: bool = False

    def __post_init__(self) -> None:
        whole = self.sample is None and self.minutes is None
        for name in ("against", "repair"):
            if getattr(self, name) and not whole:
                raise UsageError(f"{name} looks at the whole pack", "leave out sample and minutes")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"minutes {self.minutes} is out of range", "more than 0")


def verify_pack(
    root: str | os.PathLike[str],
    options: VerifyOptions | None = None,
    *,
    reporter: Reporter | None = None,
) -> VerifyResult:
    """Compare a pack with its manifest, all of it unless the options ask for less.

    Args:
        root: The pack.
        options: What to compare; None: every file, without decoding pictures.
        reporter: Called with notes, warnings and progress in bytes.

    Returns:
        What was compared, and a line for each difference.

    Raises:
        SourceError: There is no pack, or an unfinished one.
        DamageError: Its manifest cannot be read.
    """
    options = options or VerifyOptions()
    reporter = reporter or Reporter()
    folder = given_path(root, "root").absolute()
    manifest = read_manifest(folder)
    result = VerifyResult(
        samples=sum(split.samples for split in manifest.splits.values()),
        shards=sum(len(split.shards) for split in manifest.splits.values()),
        files=len(manifest.all_files()),
    )
    refused = _open_splits(folder, manifest)
    rng = random.Random()
    files = _choose_files(folder, manifest, options, rng)
    chosen = _choose_batches(manifest, options, rng)
    work = Work(_count_bytes(files, manifest, chosen, options), options.minutes, reporter)
    differing = compare_files(files, options, result, work, reporter)
    if not work.is_stopped:
        differing |= _check_ledger(folder, manifest, differing, result)
    reporter.detail(f"{count(result.compared, 'file')} compared, {len(differing)} differ")
    for name, message in refused.items():
        split = manifest.splits[name]
        if differing.isdisjoint({split.index, *(shard.name for shard in split.shards)}):
            result.damage.append(message)  # otherwise the file's own line reports it
    for name, split in manifest.splits.items():
        wrong = {n for n, shard in enumerate(split.shards) if shard.name in differing}
        tasks = _read_tasks(folder, name, chosen[name], wrong, decode=options.decode)
        _read_samples(tasks, options, result, work, reporter)
    result.is_stopped = work.is_stopped
    if options.against is not None and not result.damage:
        pool = Pool(make_batch, options.backend, options.jobs, describe_batch, reporter.warn)
        heard = ComparedBytes(work, _pack_bytes(manifest), reporter)
        result.against = compare_source(folder, manifest, options.against, pool, heard)
    if options.repair and differing:
        result.repair = _repair(folder, manifest, differing, options, work, reporter)
    return result


def _repair(
    folder: Path,
    manifest: Manifest,
    differing: set[str],
    options: VerifyOptions,
    work: Work,
    reporter: Reporter,
) -> Repair:
    done = repair_pack(folder, manifest, differing, reporter)
    if not done.missing or options.against is None:
        return done
    jobs, backend = options.jobs, options.backend
    heard = ComparedBytes(work, _pack_bytes(manifest), reporter)
    made = make_missing(folder, manifest, options.against, heard, jobs=jobs, backend=backend)
    return Repair(restored=(*done.restored, *made.restored))


def _open_splits(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Return the reason for which a reader would refuse a split, by the split's name."""
    refused = {}
    for name in manifest.splits:
        try:
            Pack(folder, name)
        except DamageError as error:
            refused[name] = error.message
    return refused


def _choose_files(
    folder: Path, manifest: Manifest, options: VerifyOptions, rng: random.Random
) -> list[ListedFile]:
    """Return the files whose digests are compared."""
    shards = {shard.name for split in manifest.splits.values() for shard in split.shards}
    files = [
        ListedFile(folder / name, record.size, record.sha256)
        for name, record in manifest.all_files().items()
        if options.sample is None or name not in shards
    ]
    if options.minutes is not None:
        rng.shuffle(files)
    return files


def _choose_batches(
    manifest: Manifest, options: VerifyOptions, rng: random.Random
) -> dict[str, list[int]]:
    """Return the batches whose samples are read, by split."""
    total = sum(split.batches for split in manifest.splits.values())
    numbers = list(range(total)) if options.decode else []
    if options.sample is not None:
        numbers = options.sample.choose(total, rng)
    found, first = {}, 0
    for name, split in manifest.splits.items():
        end = first + split.batches
        own = numbers[bisect_left(numbers, first) : bisect_left(numbers, end)]
        found[name] = [number - first for number in own]
        first = end
        if options.minutes is not None:
            rng.shuffle(found[name])
    return found


def _pack_bytes(manifest: Manifest) -> int:
    return sum(record.size for record in manifest.all_files().values())


def _count_bytes(
    files: Sequence[ListedFile],
    manifest: Manifest,
    chosen: Mapping[str, Sequence[int]],
    options: VerifyOptions,
) -> int:
    """Estimate the number of bytes to read; a comparison with the source counts as one reading."""
    total = sum(file.size for file in files)
    for name, split in manifest.splits.items():
        total += _mean_batch(split) * len(chosen[name])
    return total + (_pack_bytes(manifest) if options.against is not None else 0)


def _mean_batch(split: SplitRecord) -> int:
    """Estimate the bytes of a batch: the index has the exact number, but may be damaged."""
    return sum(shard.size for shard in split.shards) // max(1, split.batches)


def compare_files(
    files: Sequence[ListedFile],
    options: VerifyOptions,
    result: VerifyResult,
    work: Work,
    reporter: Reporter,
) -> set[str]:
    """Return the names of the files that differ."""
    differing = set()
    with Pool(compare_file, options.backend, options.jobs, name_file, reporter.warn) as pool:
        for file, difference in zip(files, pool.run(work.begin(files)), strict=False):
            result.compared += 1
            work.done(file.size)
            if difference:
                differing.add(file.path.name)
                result.damage.append(f"{file.path}: {difference}")
    return differing


def _check_ledger(
    folder: Path, manifest: Manifest, differing: set[str], result: VerifyResult
) -> set[str]:
    """Return the ledger's name if its number of lines is not that of skipped pictures."""
    if LEDGER_NAME in differing:
        return set()
    try:
        with open_regular(folder / LEDGER_NAME, follow=True) as file:
            lines = sum(part.count(b"\n") for part in iter(lambda: file.read(READ_BYTES), b""))
    except OSError as error:  # it was replaced since it was compared
        result.damage.append(f"{folder / LEDGER_NAME}: cannot be read: {error.strerror}")
        return {LEDGER_NAME}
    skipped = manifest.counts["skipped"]
    if lines == skipped:
        return set()
    result.damage.append(
        f"{folder / LEDGER_NAME}: has {lines} lines for {skipped} skipped pictures"
    )
    return {LEDGER_NAME}


def _read_tasks(
    folder: Path, split: str, batches: Sequence[int], shards: Set[int], *, decode: bool
) -> list[ReadTask]:
    """Return the batches of a split to read: some by number, and all of some shards."""
    if not batches and not shards:
        return []
    try:
        payloads = Payloads(Pack(folder, split))
    except DamageError:
        return []  # a file is missing or cut short: reported already, and the index cannot be used
    places = payloads.pack.index["batch_shard"].tolist()
    more = {batch for batch, shard in enumerate(places) if shard in shards} - {*batches}
    return [ReadTask(payloads, batch, decode) for batch in (*batches, *sorted(more))]


def _read_samples(
    tasks: Sequence[ReadTask],
    options: VerifyOptions,
    result: VerifyResult,
    work: Work,
    reporter: Reporter,
) -> None:
    with Pool(read_batch, options.backend, options.jobs, name_batch, reporter.warn) as pool:
        for task, damage in zip(tasks, pool.run(work.begin(tasks)), strict=False):
            pack = task.payloads.pack
            result.decoded += int(pack.index["batch_count"][task.batch])
            result.damage += damage
            work.done(_mean_batch(pack.record))
