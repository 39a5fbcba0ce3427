"""Make temp names, and give files final names that never replace another file.

A hard link gives a file its name in one step and fails if the name is taken, on every host. Not all
file systems have hard links: AFS has none between folders, FAT, SMB and some FUSE file systems have
none at all, and BeeGFS may make a symbolic link instead. So each process tests a link under a temp
name once for each pair of folders, and then uses the method that works.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import itertools
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

#: link() fails with one of these where the file system has no hard links, or none between these
#: two folders (EXDEV).
_NO_LINKS = {
    errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV,
}  # fmt: skip
#: renameat2() fails with one of these where the file system or the kernel has no such rename.
_NO_EXCLUSIVE_RENAME = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM}
#: From <linux/fs.h> and <fcntl.h>.
_RENAME_NOREPLACE, _AT_FDCWD = 1, -100

_TEMP_NAME = re.compile(r".+\.[0-9a-f]{32}-\d+\.tmp", re.DOTALL)

#: Gives the temp file its final name; returns whether that name was free.
_Way: TypeAlias = Callable[[Path, Path], bool]


def temp_path(folder: Path, name: str) -> Path:
    """Return a name in `folder` that no other process on any host uses."""
    return folder / f"{name}.{_process_id()}-{next(_temp_numbers)}.tmp"


def is_own_temp(path: Path) -> bool:
    """Return whether `temp_path` returned this name in this process."""
    return path.suffix == ".tmp" and f".{_process_id()}-" in path.name


def temps_in(folder: Path) -> Iterator[Path]:
    """Return the paths in `folder` with names that `temp_path` returned in any process.

    Raises:
        OSError: The folder cannot be listed.
    """
    return (path for path in folder.glob("*.tmp") if _TEMP_NAME.fullmatch(path.name))


def _process_id() -> str:
    """Return an id that is unique over all hosts, times and processes, forked children too."""
    return _unique_id(os.getpid())


@functools.cache
def _unique_id(pid: int) -> str:
    return uuid.uuid4().hex


_temp_numbers = itertools.count()


def give_name(temp: Path, final: Path) -> bool:
    """Give a file the name `final` unless that is taken. It may keep its temp name as well.

    Returns:
        Whether it got the name. If not, the temp file may be gone.

    Raises:
        OSError: The file system refused.
    """
    return _find_way(temp, final)(temp, final)


def hard_link(path: Path, name: Path) -> bool:
    """Give a file a second name, which must be free.

    Returns:
        False if that is impossible here: there are no hard links, or something else was made (and
        is removed again).

    Raises:
        OSError: The file system refused for another reason.
    """
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        # A retransmitted NFS call can find its own success.
        if isinstance(error, FileExistsError) and _is_second_name(path, name):
            return True
        raise
    if _is_second_name(path, name):
        return True
    name.unlink()
    return False


def _is_second_name(path: Path, name: Path) -> bool:
    """Return whether `name` is the file itself: neither a symbolic link to it nor a copy."""
    return os.path.samestat(name.lstat(), path.stat())


def _find_way(temp: Path, final: Path) -> _Way:
    """Return the method that works between these two folders; the first call tests it with
    `temp`.
    """
    folders = temp.parent, final.parent
    if folders not in _ways:
        probe = temp_path(final.parent, final.name)
        try:
            links = hard_link(temp, probe)
        finally:
            probe.unlink(missing_ok=True)
        if links:
            _ways[folders] = _by_link
        elif temp.parent != final.parent:
            _ways[folders] = _from_beside
        else:
            _ways[folders] = _by_rename
    return _ways[folders]


_ways: dict[tuple[Path, Path], _Way] = {}


def _by_link(temp: Path, final: Path) -> bool:
    try:
        os.link(temp, final)
    except FileExistsError:
        # A retransmitted NFS call can find its own success.
        with contextlib.suppress(FileNotFoundError):  # a lock that was released in this moment
            return final.samefile(temp)
        return False
    return True


def _from_beside(temp: Path, final: Path) -> bool:
    """Move the file to the target's folder first: no link is possible between the two folders."""
    beside = temp_path(final.parent, final.name)
    try:
        move(temp, beside)
        return give_name(beside, final)
    finally:
        beside.unlink(missing_ok=True)


def _by_rename(temp: Path, final: Path) -> bool:
    """Rename a file without hard links: Linux can fail if the new name is taken.

    Where it cannot, on this file system, two hosts that publish one name at the same instant may
    both succeed, and the second replaces the first. A lock's holder detects that, as it checks its
    lock before each shard; shards and indexes would have the same bytes.
    """
    try:
        _rename_exclusively(temp, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_EXCLUSIVE_RENAME:
            raise
        if os.path.lexists(final):
            return False
        temp.rename(final)
    return True


def _rename_exclusively(temp: Path, final: Path) -> None:
    """Rename, or fail with EEXIST. Python has no function for it.

    Raises:
        OSError: The name is taken, or the system refused or has no such call.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # another system, or an old C library
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    names = os.fsencode(temp), os.fsencode(final)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fspath(temp), None, os.fspath(final))


def move(temp: Path, target: Path) -> None:
    """Rename over `target`. Some file systems (mergerfs) refuse that between two folders; then a
    synced copy beside `target` replaces it.

    Raises:
        OSError: The file system refused.
    """
    try:
        temp.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = temp_path(target.parent, target.name)
        try:
            with temp.open("rb") as source, copy.open("xb") as file:
                shutil.copyfileobj(source, file)
                file.flush()
                os.fsync(file.fileno())
            copy.replace(target)
        finally:
            copy.unlink(missing_ok=True)
        temp.unlink()
