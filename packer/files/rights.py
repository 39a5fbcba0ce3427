"""Set the rights of a copied pack: never wider than those of the original pack."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

#: Only the owner may write to a copy.
_READING = 0o755


class Rights:
    """Rights of other users on a pack, and so on its copies.

    Args:
        source: The pack's folder.

    Raises:
        OSError: The file system does not report it.
    """

    def __init__(self, source: Path) -> None:
        self._source = source.resolve()
        self._group = self._source.stat().st_gid

    def narrow(self, copy: Path, source: Path) -> None:
        """Remove from a new file or folder the rights that its source does not grant. Rights that
        the umask removed stay removed; this user can read a file, and write to a folder.

        Args:
            copy: The new file or folder, which belongs to this user.
            source: Its original.

        Raises:
            OSError: The file system refused.
        """
        before, allowed = copy.stat(follow_symlinks=False), self.allowed(source)
        if before.st_gid != self._group:
            with contextlib.suppress(OSError):  # a group that this user is not in
                os.chown(copy, -1, self._group, follow_symlinks=False)
        if copy.stat(follow_symlinks=False).st_gid != self._group:
            allowed = _without_group(allowed)
        ours = stat.S_IRWXU if stat.S_ISDIR(before.st_mode) else stat.S_IRUSR
        mode = stat.S_IMODE(before.st_mode) & (allowed | ours)
        if mode != stat.S_IMODE(before.st_mode):
            copy.chmod(mode)

    def allowed(self, source: Path) -> int:
        """Return the widest rights that a copy of a file or folder may have."""
        status = source.stat()
        allowed = stat.S_IMODE(status.st_mode) & _READING
        # With an access control list, these bits are the widest rights of any entry.
        if status.st_gid != self._group or _has_list(source):
            allowed = _without_group(allowed)
        return allowed

    def shield(self, dest: Path) -> Path | None:
        """A folder above the pack that keeps others from it, but not from a copy in the folder
        `dest` with the pack's own rights; None if there is none.
        """
        if not self.allowed(self._source) & stat.S_IRWXO:
            return None
        for folder in self._source.parents:
            if not folder.stat().st_mode & stat.S_IXOTH:
                return None if dest.resolve().is_relative_to(folder) else folder
        return None


def is_trusted(status: os.stat_result) -> bool:
    """Return whether only this user or root can have written a file or folder: it belongs to one of
    them, and others may not write to it.
    """
    theirs = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & theirs


def _without_group(mode: int) -> int:
    """Return the mode with the group's rights reduced to those of others."""
    return mode & ~stat.S_IRWXG | (mode & stat.S_IRWXO & mode >> 3) << 3


def _has_list(path: Path) -> bool:
    try:
        os.getxattr(path, "system.posix_acl_access")
    except (OSError, AttributeError):  # none; or no such thing here
        return False
    return True
