"""Which files of a pack are staged: all, some splits, or the first shards of each split."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from packer.columns import ShardRecord, encode_split_index, index_name, read_record
from packer.errors import DamageError, UsageError, suggestion
from packer.index import IndexFile
from packer.manifest import LEDGER_NAME, NAME, Manifest, SplitRecord, read_manifest
from packer.reader.copying import FileCopy

#: Files copied at a time: as many streams as network file systems and disks take to be busy; more
#: only compete with what else runs on the node.
_JOBS = 4
#: Of the digest that names a copy: 48 bits tell all packs of a machine apart.
_ID_DIGITS = 12
_REPORT = "report.html"


@dataclass(frozen=True)
class StageOptions:
    """What to stage.

    Attributes:
        splits: Names of the splits; none = all.
        fraction: Of each split, its first shards that have this part of its bytes: 0 < f ≤ 1.
        jobs: Files copied at a time.
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
        shards: Those taken, by split.
    """

    source: Path
    manifest: Manifest
    manifest_bytes: bytes
    shards: Mapping[str, Sequence[ShardRecord]]

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the pack."""
        return {name: len(taken) for name, taken in self.shards.items()} == {
            name: len(split.shards) for name, split in self.manifest.splits.items()
        }

    @property
    def folder_name(self) -> str:
        """The pack's name, and an id of the pack's content and of what is taken of it."""
        digest = hashlib.sha256(self.manifest_bytes)
        if not self.is_whole:
            taken = {name: len(shards) for name, shards in self.shards.items()}
            digest.update(json.dumps(taken, sort_keys=True).encode())
        return f"{self.source.name}-{digest.hexdigest()[:_ID_DIGITS]}"

    @property
    def size(self) -> int:
        """Bytes of the shards, nearly all that is copied."""
        return sum(shard.size for shards in self.shards.values() for shard in shards)

    def files(self, target: Path) -> list[FileCopy]:
        """The files to copy into the folder `target`."""
        copies = []
        sizes = _sizes(self.source)
        for name, shards in self.shards.items():
            split = self.manifest.splits[name]
            for shard in shards:
                index = index_name(shard.name)
                copies.append(self._file(target, shard.name, shard.size, shard.sha256))
                if index in sizes:
                    check = partial(_check_index, self.source / index, shard)
                    copies.append(
                        FileCopy(self.source / index, target / index, sizes[index], check=check)
                    )
                elif len(shards) != len(split.shards):
                    raise DamageError(f"{self.source / index}: is missing", self._hint())
            if len(shards) == len(split.shards):
                copies.append(
                    self._file(target, split.index, split.index_bytes, split.index_sha256)
                )
        if self.is_whole:
            beside = [name for name in self._beside() if name in sizes]
            copies += [self._file(target, name, sizes[name]) for name in beside]
        return copies

    def derived(self, target: Path) -> Iterator[tuple[str, bytes]]:
        """(name, content) of the files that follow from those in `target`; the manifest last."""
        from packer.companions import companion_files

        if self.is_whole:
            yield NAME, self.manifest_bytes
            return
        splits = {}
        for name, shards in self.shards.items():
            splits[name] = self.manifest.splits[name]
            if len(shards) != len(splits[name].shards):
                indexes = [IndexFile(target / index_name(shard.name)) for shard in shards]
                data = encode_split_index(name, self.manifest.fields, shards, indexes)
                splits[name] = _record(splits[name].index, data, shards)
                yield splits[name].index, data
        manifest = self._own_manifest(splits)
        yield LEDGER_NAME, b""
        yield from companion_files(target, manifest)
        yield NAME, manifest.to_json()

    def _own_manifest(self, splits: Mapping[str, SplitRecord]) -> Manifest:
        """Counts are of what is here; what was skipped, and why, stays with the whole pack."""
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

    def _beside(self) -> Iterator[str]:
        """Files that a pack may have beside its shards and indexes."""
        for name, shards in self.shards.items():
            yield from (f"{PurePath(shard.name).stem}.idx" for shard in shards)
            yield f"{name}.wids.json"
        yield from ("_info.json", LEDGER_NAME, _REPORT)

    def _hint(self) -> str:
        return f"`packer verify {self.source}` lists all damage"


def choose(source: Path, options: StageOptions) -> Excerpt:
    """What the options take of a pack.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: It has no such split; a fraction or number of jobs that cannot be.
        DamageError: The manifest is damaged.
    """
    if not 0 < options.fraction <= 1:
        raise UsageError(f"fraction {options.fraction} is not above 0 and at most 1")
    if options.jobs < 1:
        raise UsageError(f"jobs {options.jobs} is not at least 1")
    manifest = read_manifest(source)
    for name in options.splits:
        if name not in manifest.splits:
            raise UsageError(f"{source}: has no split {name!r}", suggestion(name, manifest.splits))
    taken = {
        name: _first_shards(split, options.fraction)
        for name, split in manifest.splits.items()
        if not options.splits or name in options.splits
    }
    return Excerpt(source, manifest, (source / NAME).read_bytes(), taken)


def _first_shards(split: SplitRecord, fraction: float) -> Sequence[ShardRecord]:
    """So many shards from the first on that they have this fraction of the split's bytes."""
    wanted = fraction * sum(shard.size for shard in split.shards)
    count = there = 0
    while there < wanted and count < len(split.shards):
        there += split.shards[count].size
        count += 1
    return split.shards[:count]


def _record(index: str, data: bytes, shards: Sequence[ShardRecord]) -> SplitRecord:
    return SplitRecord(
        samples=sum(shard.samples for shard in shards),
        batches=sum(shard.batches for shard in shards),
        index=index,
        index_bytes=len(data),
        index_sha256=hashlib.sha256(data).hexdigest(),
        shards=tuple(shards),
    )


def _check_index(source: Path, shard: ShardRecord, copy: Path) -> None:
    """A shard's index has its own checksums; the manifest has none for it."""
    try:
        index = IndexFile(copy)
        same = read_record(index) == shard
        for name in index.names():
            index[name]  # compares its checksum
    except DamageError as error:
        reason = error.message.removeprefix(f"{copy}: ")
        raise DamageError(f"{source}: {reason}", error.hint) from error
    if not same:
        raise DamageError(f"{source}: is not the index of {shard.name} that the manifest lists")


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of a folder, from one listing."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
