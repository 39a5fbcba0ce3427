"""`packer verify` as a function: does a pack hold what its manifest says?

Each split is opened as a reader opens it. Every file's size and SHA-256 are compared; where a shard
differs, and everywhere with `decode`, samples are read one by one, so that the damaged ones are
named.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packer import registry
from packer.against import SourceDifferences, compare_source
from packer.errors import DamageError, ImageError, PackerError
from packer.fsio import READ_BYTES, sha256_file
from packer.input import Input
from packer.manifest import LEDGER_NAME, Manifest, read_manifest
from packer.packing.batch import describe_batch, make_batch
from packer.packing.pool import Pool
from packer.paths import given_path
from packer.reader.pack import Pack
from packer.reader.payloads import Payloads
from packer.regular import open_regular
from packer.reporting import Progress, Reporter


@dataclass
class VerifyResult:
    """What was compared and what differs.

    Attributes:
        samples: Samples in the pack.
        shards: Shards in the pack.
        decoded: Samples that were read one by one.
        damage: One line each, empty if all is well.
        against: How it differs from its source; None if that was not compared.
    """

    samples: int = 0
    shards: int = 0
    decoded: int = 0
    damage: list[str] = field(default_factory=list)
    against: SourceDifferences | None = None


@dataclass(frozen=True)
class VerifyOptions:
    """What to compare, and how.

    Attributes:
        decode: Decode every picture.
        against: Source to convert again and compare with, sample by sample.
        jobs: Worker processes; None = the cores this process may use.
        backend: loky, threading, sequential.
    """

    decode: bool = False
    against: Input | None = None
    jobs: int | None = None
    backend: str = "loky"


def verify_pack(
    root: str | os.PathLike[str],
    options: VerifyOptions | None = None,
    reporter: Reporter | None = None,
) -> VerifyResult:
    """Compare a pack with its manifest, all of it, and list what differs.

    Raises:
        SourceError: No pack there, or an unfinished one.
        DamageError: Its manifest cannot be read.
    """
    options = options or VerifyOptions()
    reporter = reporter or Reporter()
    folder = given_path(root, "root").absolute()
    manifest = read_manifest(folder)
    result = VerifyResult(
        samples=sum(split.samples for split in manifest.splits.values()),
        shards=sum(len(split.shards) for split in manifest.splits.values()),
    )
    refused = _open_splits(folder, manifest)
    differing = _compare_files(folder, manifest, options, result, reporter)
    reporter.detail(f"{len(manifest.all_files())} files compared, {len(differing)} differ")
    for name, message in refused.items():
        split = manifest.splits[name]
        if differing.isdisjoint({split.index, *(shard.name for shard in split.shards)}):
            result.damage.append(message)  # else a line on the file says it
    for name, split in manifest.splits.items():
        wanted = {s.name for s in split.shards} if options.decode else set()
        wanted |= {shard.name for shard in split.shards if shard.name in differing}
        if wanted:
            _read_samples(folder, name, wanted, options, result, reporter)
    if options.against is not None and not result.damage:
        pool = Pool(make_batch, options.backend, options.jobs, describe_batch, reporter.warn)
        result.against = compare_source(folder, manifest, options.against, pool, reporter)
    return result


def _open_splits(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Why a reader would refuse a split, by the split's name."""
    refused = {}
    for name in manifest.splits:
        try:
            Pack(folder, name)
        except DamageError as error:
            refused[name] = error.message
    return refused


@dataclass(frozen=True)
class _File:
    """A file and what the manifest says of it."""

    path: Path
    size: int
    sha256: str


def _compare_files(
    folder: Path,
    manifest: Manifest,
    options: VerifyOptions,
    result: VerifyResult,
    reporter: Reporter,
) -> set[str]:
    """Names of the files that differ."""
    differing = set()
    files = [
        _File(folder / name, record.size, record.sha256)
        for name, record in manifest.all_files().items()
    ]
    with Pool(_compare_file, options.backend, options.jobs, _name_file, reporter.warn) as pool:
        for file, difference in zip(files, pool.run(files), strict=True):
            if difference:
                differing.add(file.path.name)
                result.damage.append(f"{file.path}: {difference}")
    differing |= _check_ledger(folder, manifest, differing, result)
    return differing


def _check_ledger(
    folder: Path, manifest: Manifest, differing: set[str], result: VerifyResult
) -> set[str]:
    """The ledger's name if it has another number of lines than there are skipped pictures."""
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


def _name_file(file: _File) -> str:
    return str(file.path)


def _compare_file(file: _File) -> str:
    """In a worker: how a file differs, "" if it does not."""
    try:
        size = file.path.stat().st_size
        if size != file.size:
            return f"has {size} bytes, the manifest says {file.size}"
        return "" if sha256_file(file.path) == file.sha256 else "its SHA-256 differs"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


@dataclass(frozen=True)
class _ReadTask:
    """One batch whose samples are to be read."""

    payloads: Payloads
    batch: int
    decode: bool


def _read_samples(
    folder: Path,
    split: str,
    shards: set[str],
    options: VerifyOptions,
    result: VerifyResult,
    reporter: Reporter,
) -> None:
    try:
        payloads = Payloads(Pack(folder, split))
    except DamageError:
        return  # a file is missing or cut short: named already, and nothing can be read by index
    index = payloads.pack.index
    numbers = {n for n, s in enumerate(payloads.pack.record.shards) if s.name in shards}
    batches = [n for n, shard in enumerate(index["batch_shard"].tolist()) if shard in numbers]
    tasks = [_ReadTask(payloads, batch, options.decode) for batch in batches]
    total = int(index["batch_count"][batches].sum())
    done = 0
    with Pool(_read_batch, options.backend, options.jobs, _name_batch, reporter.warn) as pool:
        for batch, damage in zip(batches, pool.run(tasks), strict=True):
            done += int(index["batch_count"][batch])
            result.decoded += int(index["batch_count"][batch])
            result.damage += damage
            reporter.progress(Progress(done, total, skipped=0, fresh=done))


def _name_batch(task: _ReadTask) -> str:
    return f"{task.payloads.pack.split}, batch {task.batch}"


def _read_batch(task: _ReadTask) -> list[str]:
    """In a worker: the damage in one batch, a line a sample."""
    pack = task.payloads.pack
    image = next(entry for entry in pack.manifest.fields if entry.kind == "image")
    first = int(pack.index["batch_first"][task.batch])
    samples = range(first, first + int(pack.index["batch_count"][task.batch]))
    damage = []
    try:
        span = task.payloads.span(task.batch)
    except PackerError as error:
        return [error.message]
    for sample in samples:
        try:
            payload = task.payloads.cut([span], np.array([sample]), image.name)[0]
            if task.decode and payload is not None:
                width, height = (int(pack.index[name][sample]) for name in ("width", "height"))
                registry.load("codecs", str(image.codec)).decode(payload, width, height)
        except DamageError as error:
            damage.append(error.message)
        except ImageError as error:
            damage.append(f"{pack.describe(sample, image.name)}: {error.message}")
    return damage
