"""Staged copies as they lie in a folder: which are whole, and what they have in common."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from packer.errors import DamageError, SourceError
from packer.fsio import remove_if_there
from packer.manifest import read_manifest
from packer.naming import hard_link
from packer.reader.copying import FileCopy


def is_complete(copy: Path) -> bool:
    """Whether a copy is whole: its manifest, and every shard and index with its size."""
    try:
        manifest = read_manifest(copy)
        with os.scandir(copy) as entries:
            sizes = {entry.name: entry.stat().st_size for entry in entries}
    except (SourceError, DamageError, OSError):
        return False
    return all(
        sizes.get(split.index) == split.index_bytes
        and all(sizes.get(shard.name) == shard.size for shard in split.shards)
        for split in manifest.splits.values()
    )


def is_own(copy: Path) -> bool:
    """Whether this user, or root, made it: what another user made may hold anything."""
    return copy.lstat().st_uid in (os.getuid(), 0)


class OtherCopies:
    """Complete copies beside one that is being made: other excerpts of the same pack may have some
    of its shards.

    Args:
        copy: The one that is being made, named NAME-<id>.
    """

    def __init__(self, copy: Path) -> None:
        self._paths: dict[tuple[str, str], Path] = {}
        name = copy.name.rpartition("-")[0]
        for other in copy.parent.iterdir():
            if other != copy and other.name.rpartition("-")[0] == name:
                # One that is removed meanwhile is no copy.
                with contextlib.suppress(SourceError, FileNotFoundError):
                    self._add(other)

    def _add(self, other: Path) -> None:
        if is_own(other) and is_complete(other):
            for split in read_manifest(other).splits.values():
                for shard in split.shards:
                    self._paths[shard.name, shard.sha256] = other / shard.name

    def find(self, file: FileCopy) -> Path | None:
        """The same file in one of them."""
        return self._paths.get((file.target.name, file.sha256))

    def link(self, file: FileCopy) -> bool:
        """Give the same file, if one of them has it, its name in the copy, too."""
        path = self.find(file)
        if path is None:
            return False
        with contextlib.suppress(OSError):  # no links here, or it has gone: it is copied
            remove_if_there(file.target)
            return hard_link(path, file.target)
        return False
