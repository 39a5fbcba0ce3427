"""Publish files whole or not at all, on local disks and on NFS.

A file is written under a temp name that is unique over all hosts and processes, synced, and then
published under its final name without overwriting: the first process to publish wins. NFS servers
report a full disk only at fsync or close, so both are checked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from packer.errors import OutputError
from packer.files.naming import give_name, move, temp_path
from packer.files.regular import NotRegular, open_regular, read_regular

#: Bytes per read when a whole file is hashed or compared: large enough for one round trip of an
#: NFS client's read-ahead, small enough to stay in the processor's cache.
READ_BYTES = 1 << 20
_HINTS = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "your quota is used up: free some space and run the same command again",
    errno.EACCES: "check the folder's permissions",
    errno.EROFS: "the file system is read-only",
    errno.EFBIG: "the file system or ulimit -f does not allow files of this size",
}


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into an OutputError that names `path`."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error) from error


def output_error(path: Path, error: OSError) -> OutputError:
    """Return the OutputError for an OSError that was raised while writing `path`."""
    reason = error.strerror or str(error)
    return OutputError(f"{path}: {reason}", _HINTS.get(error.errno or 0, ""))


def make_folder(path: Path) -> None:
    """Make a folder and its parents. A link to a folder that is not there leads to a new one.

    Raises:
        OutputError: It cannot be made, or a file of that name is in the way.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        real = real_path(path)
        if real == path:
            raise OutputError(f"{path}: a file is in the way of this folder") from error
        make_folder(real)
    except OSError as error:
        raise output_error(path, error) from error


def require_own_folder(path: Path) -> None:
    """Refuse a link in the place of a folder whose files are packer's own.

    Raises:
        OutputError: It is one, so that files elsewhere would be written to and removed.
    """
    if path.is_symlink():
        raise OutputError(
            f"{path}: is a symbolic link, which packer never makes",
            "remove it, or use another --out",
        )


def real_path(path: Path) -> Path:
    """Return a path with all symbolic links followed.

    Raises:
        OutputError: Links lead in a circle.
    """
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise output_error(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
    return real


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """List a folder. On NFS a listing contains files that another node has just written, while a
    lookup of one name may be answered from the client's cache.

    Raises:
        FileNotFoundError, NotADirectoryError: There is no such folder.
        OutputError: It cannot be listed.
    """
    for last in (False, True):
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            # ESTALE: the client's cached entry for the name is outdated, and is dropped now.
            if last or error.errno != errno.ESTALE:
                raise output_error(folder, error) from error
    raise AssertionError("returned or raised before")


def write_temp(folder: Path, name: str, data: bytes) -> Path:
    """Write and sync `data` under a temp name; the caller publishes it.

    Raises:
        OutputError: The file system refused.
    """
    path = temp_path(folder, name)
    try:
        with output_errors(path), path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:  # also the exception of a signal handler
        remove_if_there(path)
        raise
    return path


def publish(temp: Path, final: Path) -> bool:
    """Give a synced temp file its final name, unless that name is taken.

    Returns:
        Whether it got the name; if not, the caller removes what is left of the temp file.

    Raises:
        OutputError: The file system refused.
    """
    with output_errors(final):
        if not give_name(temp, final):
            return False
        remove_if_there(temp)
        sync_folder(final.parent)
    return True


def publish_over(folder: Path, final: Path, data: bytes) -> None:
    """Publish as `publish_bytes`, but replace other bytes under that name, in one step.

    For files that count only once another one is published. Removing the old file first would be
    wrong: another run may have published that other file since this process last looked.

    Raises:
        OutputError: The file system refused.
    """
    if publish_new(folder, final, data):
        return
    with output_errors(final):
        if _holds(final, data):  # as always, but if the source changed
            return
        temp = write_temp(folder, final.name, data)
        try:
            move(temp, final)
        finally:
            remove_if_there(temp)
        sync_folder(final.parent)


def publish_new(folder: Path, final: Path, data: bytes) -> bool:
    """Write `data` by way of `folder` to a file that appears whole under its final name, unless
    that name is taken, whatever is there.

    Returns:
        Whether it was written.

    Raises:
        OutputError: The file system refused.
    """
    temp = write_temp(folder, final.name, data)
    try:
        return publish(temp, final)
    finally:
        remove_if_there(temp)


def publish_bytes(folder: Path, final: Path, data: bytes) -> None:
    """Write `data` by way of `folder` to a file that appears whole under its final name.

    If an earlier or a concurrent run has taken the name, its bytes must be the same.

    Raises:
        OutputError: The file system refused, or other bytes have that name.
    """
    if publish_new(folder, final, data):
        return
    with output_errors(final):
        same = _holds(final, data)
    if not same:
        raise OutputError(f"{final}: already there with other content", "use another --out")


def _holds(path: Path, data: bytes) -> bool:
    """Return whether `path` is a regular file with exactly this content."""
    try:
        return read_regular(path, len(data)) == data
    except NotRegular:
        return False
    except OSError as error:
        if error.errno == errno.EFBIG:
            return False
        raise


def remove_if_there(path: Path) -> None:
    """Remove a file that packer made, if it is still there."""
    path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new names in `folder` survive a power cut, if the file system supports it."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network and FUSE file systems cannot sync a folder; names there are synchronous.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(fd)


def sha256_file(path: Path) -> str:
    """Hex digest of a whole file, or of the one that a link leads to.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    digest = hashlib.sha256()
    with open_regular(path, follow=True) as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
    return digest.hexdigest()
