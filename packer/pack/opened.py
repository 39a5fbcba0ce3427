"""Open a pack: read its manifest and one split's index, and check that all shards exist.

Opening costs two file opens and one directory listing, whatever the number of shards. It compares:

- the manifest: its SHA-256 with the one in its first line;
- the index: its size with the manifest's, the identity of its pack and its table of shards (names,
  sizes, SHA-256, fingerprints, counts) with the manifest's, so that an index of another pack, split
  or conversion is refused; the values of its columns (`packer.pack.index_form`); its own checksums,
  of the header and of these columns now and of slots and paths when they are first used. Its
  SHA-256 is compared by `packer verify` alone: hashing would read the whole file, paths included,
  in every worker process;
- the shards: that each exists with its exact size. Their content is checked when a process first
  reads them (`packer.pack.shards`).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from packer.arguments import shown
from packer.errors import DamageError, UsageError, suggestion
from packer.files.paths import given_path
from packer.pack.columns import read_path, stored_fields
from packer.pack.index import IndexFile
from packer.pack.index_form import open_split_index
from packer.pack.manifest import Manifest, SplitRecord, read_manifest
from packer.pack.presence import differing_sizes
from packer.types import Array, display_path

#: Number of damaged shards that a message names; further ones are counted.
_NAMED = 3


class Pack:
    """One split of a pack, open for reading.

    Args:
        root: The pack's folder.
        split: Name of the split.
        holding: Object to keep alive as long as the pack is used: the hold on a copy in memory.

    Attributes:
        root: The folder, absolute.
        split: Name of the split.
        manifest: The pack's manifest.
        record: The split's entry in the manifest.
        index: The split's index; `packer.pack.columns` lists its arrays.

    Raises:
        SourceError: There is no pack, or an unfinished one.
        UsageError: It has no such split.
        DamageError: A shard or the index is missing, of the wrong size, or of another pack.
    """

    def __init__(
        self, root: str | os.PathLike[str], split: str = "train", holding: object = None
    ) -> None:
        self._holding = holding
        self._open(given_path(root, "root").absolute(), split)
        self._check_sizes()
        self.index = self._open_index()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.root, self.split, self.record.index_sha256, self._holding)

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.record.samples

    @property
    def identity(self) -> str:
        """Return a hex digest of the samples and their numbers: equal in every process that reads
        the same samples, different for another pack, split or selection.
        """
        return self.record.index_sha256

    def batch_of(self, samples: Array | int) -> Array:
        """Return int64: the on-disk batch of each sample, numbered through the split."""
        # side='right': an empty batch begins where the next one does.
        found: Array = np.searchsorted(self.index["batch_first"], samples, "right") - 1
        return found

    def key(self, sample: int) -> str:
        """Return a sample's original path, as text."""
        return display_path(read_path(self.index, sample))

    def stored_fields(self) -> list[str]:
        """Return the names of the fields that are kept as bytes."""
        return stored_fields(self.manifest.fields)

    def shard_path(self, shard: int) -> Path:
        """Return the path of a shard of this split."""
        return self.root / self.record.shards[shard].name

    def describe(self, sample: int, field: str) -> str:
        """Return the place of a sample's field for a message: pack, shard, batch, offset, key."""
        batch = int(self.batch_of(sample))
        shard = self.record.shards[int(self.index["batch_shard"][batch])].name
        offset = int(self.index[f"{field}.offset"][sample])
        return (
            f"{self.root}: {shard}, batch {batch}, offset {offset}, {field} of {self.key(sample)!r}"
        )

    def verify_hint(self) -> str:
        """Return a hint for damage."""
        return f"`packer verify {self.root}` lists all damage; {self.manifest.repair}"

    def _open(self, root: Path, split: str) -> None:
        self.root = root
        self.split = split
        self.manifest: Manifest = read_manifest(root)
        if not isinstance(split, str) or split not in self.manifest.splits:
            raise UsageError(
                f"{root}: has no split {shown(split)}", suggestion(split, self.manifest.splits)
            )
        self.record: SplitRecord = self.manifest.splits[split]

    def _check_sizes(self) -> None:
        expected = {shard.name: shard.size for shard in self.record.shards}
        expected[self.record.index] = self.record.index_bytes
        differing = differing_sizes(self.root, expected)
        wrong = [f"{name} is {difference}" for name, difference in differing.items()]
        if wrong:
            more = f", and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
            raise DamageError(
                f"{self.root}: " + ", ".join(wrong[:_NAMED]) + more, self.verify_hint()
            )

    def _open_index(self) -> IndexFile:
        try:
            return open_split_index(self.root, self.manifest, self.split)
        except DamageError as error:
            raise DamageError(error.message, error.hint or self.verify_hint()) from None


def _reopen(root: Path, split: str, index_sha256: str, holding: object) -> Pack:
    """Open the same pack in another process, without listing the folder again: the first process
    has done so, and later changes are found when a shard is first read.
    """
    pack = Pack.__new__(Pack)
    pack._holding = holding
    pack._open(root, split)
    if pack.record.index_sha256 != index_sha256:
        raise DamageError(
            f"{root}: another pack took its place while it was in use", "start the training again"
        )
    pack.index = pack._open_index()
    return pack
