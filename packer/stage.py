"""`packer stage` as a function: a pack, or an excerpt, on a disk or in memory of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from packer.files.paths import given_path
from packer.pack.manifest import read_manifest
from packer.reporting import Reporter
from packer.staging.excerpt import StageOptions
from packer.staging.making import stage_pack


@dataclass(frozen=True)
class Staged:
    """A staged pack.

    Attributes:
        path: Its folder, a pack like any other.
        samples: In all its splits.
        shards: In all its splits.
        size: Bytes of its shards.
    """

    path: Path
    samples: int
    shards: int
    size: int


def stage(
    root: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: StageOptions | None = None,
    reporter: Reporter | None = None,
) -> Staged:
    """Copy a pack to a folder of this machine, once, whatever the number of processes that ask.

    Args:
        root: The pack.
        dest: A folder on a local disk or in memory; made if it is not there.
        options: What to take.
        reporter: Told how far it is.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: Invalid options.
        DamageError: A file of the pack is missing or damaged.
        OutputError: Not enough room, with the numbers; or `dest` cannot be written to.
        PackerError: The pack cannot be read.
    """
    options, reporter = options or StageOptions(), reporter or Reporter()
    source, dest = given_path(root, "root"), given_path(dest, "dest")
    if options.fraction < 1 and read_manifest(source).options.get("order") == "sorted":
        reporter.warn("the pack was made with --order sorted: its first shards lack whole classes")
    path = stage_pack(source, dest, options, reporter)
    splits = read_manifest(path).splits.values()
    return Staged(
        path,
        samples=sum(split.samples for split in splits),
        shards=sum(len(split.shards) for split in splits),
        size=sum(shard.size for split in splits for shard in split.shards),
    )
