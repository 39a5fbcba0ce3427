"""Choose the files of a pack to stage: all, some splits, or the first shards of each split."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packer.errors import DamageError, UsageError, suggestion
from packer.pack.columns import ShardRecord, index_name
from packer.pack.manifest import NAME, Manifest, SplitRecord, parse_manifest, read_manifest_bytes
from packer.staging.copying import FileCopy

#: Files copied at a time: enough streams to keep network file systems and disks busy; more would
#: only compete with other processes on the node.
_JOBS = 4
#: Hex digits of the digest in a copy's name: 48 bits distinguish all packs of a machine.
_ID_DIGITS = 12
_REPORT = "report.html"


@dataclass(frozen=True)
class StageOptions:
    """What to stage.

    Attributes:
        splits: Names of the splits; none = all.
        fraction: Fraction of each split's bytes: its first shards that have it, 0 < f ≤ 1.
        jobs: Number of files copied at a time.
    """

    splits: tuple[str, ...] = ()
    fraction: float = 1.0
    jobs: int = _JOBS


@dataclass(frozen=True)
class Excerpt:
    """Some shards of some splits of a pack.

    Attributes:
        source: The pack's folder.
        manifest: Its manifest.
        manifest_bytes: The manifest's file.
        shards: The chosen shards, by split.
    """

    source: Path
    manifest: Manifest
    manifest_bytes: bytes
    shards: Mapping[str, Sequence[ShardRecord]]

    @property
    def is_whole(self) -> bool:
        """Return whether it is the whole pack."""
        return {name: len(taken) for name, taken in self.shards.items()} == {
            name: len(split.shards) for name, split in self.manifest.splits.items()
        }

    @property
    def folder_name(self) -> str:
        """Return the pack's name with an id of its content and of the chosen files."""
        digest = hashlib.sha256(self.manifest_bytes)
        if not self.is_whole:
            taken = {name: len(shards) for name, shards in self.shards.items()}
            digest.update(json.dumps(taken, sort_keys=True).encode())
        return f"{self.source.name}-{digest.hexdigest()[:_ID_DIGITS]}"

    @property
    def size(self) -> int:
        """Return the size of the shards in bytes: nearly all that is copied."""
        return sum(shard.size for shards in self.shards.values() for shard in shards)

    def files(self, target: Path) -> list[FileCopy]:
        """Return the files to copy into the folder `target`.

        Raises:
            DamageError: One of them is missing, or is no regular file.
        """
        copies = []
        sizes = _sizes(self.source)
        for name, shards in self.shards.items():
            split = self.manifest.splits[name]
            for shard in shards:
                index = index_name(shard.name)
                copies.append(self._file(target, shard.name, shard.size, shard.sha256))
                if index in sizes or not self.is_whole:
                    copies.append(self._listed(target, index))
            if len(shards) == len(split.shards):
                copies.append(
                    self._file(target, split.index, split.index_bytes, split.index_sha256)
                )
        if self.is_whole:
            indexes = {copy.target.name for copy in copies}
            beside = [name for name in self.manifest.files if name in sizes and name not in indexes]
            copies += [self._listed(target, name) for name in beside]
            # It has no digest, so a link might lead to any file of the user who stages the pack.
            if _REPORT in sizes and not (self.source / _REPORT).is_symlink():
                copies.append(self._file(target, _REPORT, sizes[_REPORT]))
        for copy in copies:
            if copy.source.name not in sizes:
                raise DamageError(
                    f"{copy.source}: is missing", f"`packer verify {self.source}` lists all damage"
                )
        return copies

    def write_derived(self, target: Path, write: Callable[[str, bytes], None]) -> None:
        """Write the files that are derived from those in `target`, the manifest last.

        Args:
            target: The copy, with all files that `files` lists.
            write: Called with name and content of each file.
        """
        from packer.packing.completion import write_beside  # for copying excerpts alone

        if self.is_whole:
            write(NAME, self.manifest_bytes)
            return
        splits = {}
        for name, shards in self.shards.items():
            split = self.manifest.splits[name]
            whole = len(shards) == len(split.shards)
            splits[name] = split if whole else SplitRecord.of_shards(name, shards)
        write_beside(target, self._draft(splits), b"", write)

    def _draft(self, splits: Mapping[str, SplitRecord]) -> Manifest:
        """Return the manifest of the excerpt. It counts its own samples; the ledger of skipped
        samples stays with the whole pack.
        """
        packed = sum(split.samples for split in splits.values())
        every = self.manifest.splits.values()
        excerpt_of = {
            "samples": sum(split.samples for split in every),
            "shards": sum(len(split.shards) for split in every),
        }
        counts = {"planned": packed, "packed": packed, "skipped": 0, "excerpt_of": excerpt_of}
        return dataclasses.replace(self.manifest, splits=splits, counts=counts, listing_sha256="")

    def _file(self, target: Path, name: str, size: int, sha256: str = "") -> FileCopy:
        return FileCopy(self.source / name, target / name, size, sha256)

    def _listed(self, target: Path, name: str) -> FileCopy:
        """A file that the manifest lists beside shards and splits' indexes."""
        record = self.manifest.files.get(name)
        if record is None:
            raise DamageError(f"{self.source / NAME}: does not list {name}")
        return self._file(target, name, record.size, record.sha256)


def choose(source: Path, options: StageOptions) -> Excerpt:
    """Choose the shards of a pack by the options.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: It has no such split; an invalid fraction or number of jobs.
        DamageError: The manifest is damaged.
    """
    if not 0 < options.fraction <= 1:
        raise UsageError(f"fraction {options.fraction} is not above 0 and at most 1")
    if options.jobs < 1:
        raise UsageError(f"jobs {options.jobs} is not at least 1")
    data = read_manifest_bytes(source)
    manifest = parse_manifest(data, source / NAME)
    for name in options.splits:
        if name not in manifest.splits:
            raise UsageError(f"{source}: has no split {name!r}", suggestion(name, manifest.splits))
    taken = {
        name: _first_shards(split, options.fraction)
        for name, split in manifest.splits.items()
        if not options.splits or name in options.splits
    }
    return Excerpt(source, manifest, data, taken)


def _first_shards(split: SplitRecord, fraction: float) -> Sequence[ShardRecord]:
    """Return the first shards that together have this fraction of the split's bytes."""
    wanted = fraction * sum(shard.size for shard in split.shards)
    count = there = 0
    while there < wanted and count < len(split.shards):
        there += split.shards[count].size
        count += 1
    return split.shards[:count]


def _sizes(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file of a folder, from one listing."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
