"""Find staged copies in a folder: whole ones, and files that they share.

In a folder that many users may write to (/dev/shm), another user may have put anything under a
copy's name. Only files that belong to this user or to root are opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from packer.errors import DamageError, SourceError
from packer.files.fsio import remove_if_there
from packer.files.naming import hard_link
from packer.files.rights import is_trusted
from packer.pack.manifest import NAME, read_manifest
from packer.staging.copying import FileCopy


def is_complete(copy: Path) -> bool:
    """Return whether a copy is whole (its manifest, and every shard and index with its size) and
    belongs to this user or root.
    """
    if not is_own(copy):
        return False
    try:
        with os.scandir(copy) as entries:
            found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        sizes = {name: status.st_size for name, status in found.items() if _is_file(status)}
        if NAME not in sizes:
            return False
        manifest = read_manifest(copy)
    except (SourceError, DamageError, OSError):
        return False
    return all(
        sizes.get(split.index) == split.index_bytes
        and all(sizes.get(shard.name) == shard.size for shard in split.shards)
        for split in manifest.splits.values()
    )


def is_own(copy: Path) -> bool:
    """Return whether it is a folder of this user or root to which no other user can write."""
    try:
        status = copy.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and is_trusted(status)


def is_free(path: Path) -> bool:
    """Return whether a copy may be made there: the name is free, or is a folder of this user to
    which no other user can write.
    """
    try:
        return (is_own(path) and path.lstat().st_uid == os.geteuid()) or not os.path.lexists(path)
    except OSError:
        return False


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and is_trusted(status)


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
                # A copy that is removed meanwhile does not count.
                with contextlib.suppress(SourceError, FileNotFoundError):
                    self._add(other)

    def _add(self, other: Path) -> None:
        if is_complete(other):
            for split in read_manifest(other).splits.values():
                for shard in split.shards:
                    self._paths[shard.name, shard.sha256] = other / shard.name

    def find(self, file: FileCopy) -> Path | None:
        """Return the path of the same file in one of the copies."""
        return self._paths.get((file.target.name, file.sha256))

    def link(self, file: FileCopy, allowed: int) -> bool:
        """Link a file from another copy, if one has it, instead of copying it.

        Args:
            file: The file to link.
            allowed: The widest rights that it may have.
        """
        path = self.find(file)
        if path is None or stat.S_IMODE(path.lstat().st_mode) & ~(allowed | stat.S_IRWXU):
            return False
        with contextlib.suppress(OSError):  # no hard links here, or the file is gone: it is copied
            remove_if_there(file.target)
            return hard_link(path, file.target)
        return False
