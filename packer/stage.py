"""`packer stage` as a function: copy a pack, or an excerpt, to a local disk or to memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from packer.files.paths import given_path
from packer.pack.manifest import read_manifest
from packer.reporting import Reporter
from packer.staging.excerpt import StageOptions
from packer.staging.making import copy_pack

__all__ = ["StageOptions", "StageResult", "stage_pack"]


@dataclass(frozen=True)
class StageResult:
    """A staged pack.

    Attributes:
        path: Folder of the copy, which is a normal pack.
        samples: Number of samples in all splits.
        shards: Number of shards in all splits.
        size: Size of all shards, in bytes.
    """

    path: Path
    samples: int
    shards: int
    size: int


def stage_pack(
    root: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: StageOptions | None = None,
    *,
    reporter: Reporter | None = None,
) -> StageResult:
    """Copy a pack to a folder of this machine, once for all processes that call this.

    Args:
        root: The pack.
        dest: A folder on a local disk or in memory; created if it does not exist.
        options: Which part of the pack to copy, and how; None: all of the pack.
        reporter: Receives notes, warnings and progress.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: An option is invalid.
        DamageError: A file of the pack is missing or damaged.
        OutputError: Not enough space (the message has the numbers), or `dest` is not writable.
        PackerError: The pack cannot be read.
    """
    options, reporter = options or StageOptions(), reporter or Reporter()
    source, dest = given_path(root, "root"), given_path(dest, "dest")
    if options.fraction < 1 and read_manifest(source).options.get("order") == "sorted":
        reporter.warn("the pack was made with --order sorted: its first shards lack whole classes")
    path = copy_pack(source, dest, options, reporter)
    splits = read_manifest(path).splits.values()
    return StageResult(
        path,
        samples=sum(split.samples for split in splits),
        shards=sum(len(split.shards) for split in splits),
        size=sum(shard.size for split in splits for shard in split.shards),
    )
