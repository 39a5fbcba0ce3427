"""Copy files of a pack: several at once, in large sequential reads, with their checksums
compared.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from packer.errors import DamageError, OutputError, PackerError
from packer.files.fsio import output_error, remove_if_there
from packer.files.naming import move, temp_path
from packer.files.regular import NotRegular, open_regular

#: Bytes of one read: several of the largest transfers of a network file system (1 MiB on NFS), so
#: that those are under way at once.
COPY_BYTES = 8 << 20
#: Seconds between two calls of `told`, and until a signal takes effect.
_TELL_SECONDS = 0.25


@dataclass(frozen=True)
class FileCopy:
    """A file to copy.

    Attributes:
        source: Path to copy from.
        target: Final path of the copy, which exists once the copy is whole.
        size: Bytes that it must have.
        sha256: Hex digest that it must have; "" = not known.
    """

    source: Path
    target: Path
    size: int
    sha256: str = ""


def copy_files(
    copies: Sequence[FileCopy],
    work: Path,
    jobs: int,
    told: Callable[[int], None],
    finish: Callable[[Path, Path], None] | None = None,
) -> None:
    """Copy files by way of temp names in `work`, on the same file system as the targets.

    When it raises, whole copies stay, others leave nothing behind.

    Args:
        copies: The files, in the order in which their copying starts.
        work: Folder for temp files.
        jobs: Number of files copied at a time.
        told: Called at intervals with the number of bytes copied so far.
        finish: Called with a whole copy and its source before it gets its name.

    Raises:
        DamageError: A source is missing, or its size or checksum differs.
        OutputError: The target's file system refused.
        PackerError: The source's file system failed.
    """
    run = _Run(work, finish)
    with ThreadPoolExecutor(jobs, "packer-stage") as threads:
        try:
            pending: set[Future[None]] = {threads.submit(run.copy, copy) for copy in copies}
            while pending:
                done, pending = wait(pending, _TELL_SECONDS, FIRST_EXCEPTION)
                for future in done:
                    future.result()
                told(run.copied)
        except BaseException:
            run.stopped.set()
            threads.shutdown(wait=True, cancel_futures=True)
            raise


class _Run:
    """Copies under way, in threads."""

    def __init__(self, work: Path, finish: Callable[[Path, Path], None] | None) -> None:
        self.work = work
        self.finish = finish
        self.copied = 0
        self.stopped = threading.Event()
        self._lock = threading.Lock()

    def copy(self, copy: FileCopy) -> None:
        """Copy one file."""
        temp = temp_path(self.work, copy.target.name)
        try:
            self._write(copy, temp)
            with _writing(copy, temp):
                if self.finish is not None:
                    self.finish(temp, copy.source)
                move(temp, copy.target)
        finally:
            remove_if_there(temp)

    def _write(self, copy: FileCopy, temp: Path) -> None:
        """Copy the source's bytes into `temp` and sync it; raise if size or checksum differ."""
        digest = hashlib.sha256()
        buffer = memoryview(bytearray(min(COPY_BYTES, copy.size + 1)))
        done = 0
        with _open_source(copy) as source, _create(copy, temp) as target:
            while done <= copy.size and not self.stopped.is_set():
                data = buffer[: _read(copy, source, buffer, done)]
                if not data:
                    break
                digest.update(data)
                with _writing(copy, temp):
                    _write_all(target, data)
                done += len(data)
                with self._lock:
                    self.copied += len(data)
            with _writing(copy, temp):
                os.fsync(target.fileno())
        if self.stopped.is_set():
            raise PackerError(
                f"{copy.target}: stopped"
            )  # this error is discarded: another one stopped the copying
        if done != copy.size:
            more = "more than " if done > copy.size else ""
            raise _damage(copy, f"has {more}{min(done, copy.size)} bytes, not {copy.size}")
        if copy.sha256 and digest.hexdigest() != copy.sha256:
            raise _damage(copy, "its SHA-256 differs from what the manifest says")


def _open_source(copy: FileCopy) -> FileIO:
    try:
        source = open_regular(copy.source, follow=True)
    except FileNotFoundError:
        raise _damage(copy, "is missing") from None
    except NotRegular as error:
        raise _damage(copy, str(error.strerror)) from None
    except OSError as error:
        raise PackerError(f"{copy.source}: cannot be read: {error.strerror}") from error
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # a hint only
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
    return source


def _create(copy: FileCopy, temp: Path) -> BinaryIO:
    with _writing(copy, temp):
        return temp.open("xb", buffering=0)


def _read(copy: FileCopy, source: FileIO, buffer: memoryview, offset: int) -> int:
    try:
        return source.readinto(buffer) or 0
    except OSError as error:
        raise PackerError(
            f"{copy.source}: cannot be read at offset {offset}: {error.strerror} "
            f"(errno {error.errno})",
            "run the same again: what is whole is kept",
        ) from error


def _write_all(target: BinaryIO, data: memoryview) -> None:
    """Write all bytes: one call may write fewer, on a full disk or at a signal."""
    while data:
        data = data[target.write(data) :]


@contextlib.contextmanager
def _writing(copy: FileCopy, temp: Path) -> Iterator[None]:
    """Turn an OSError of the target's file system into an OutputError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise output_error(copy.target, error) from error
        written = temp.stat().st_size if temp.exists() else 0
        raise OutputError(
            f"{copy.target}: {error.strerror} after {written:,} of its {copy.size:,} bytes",
            "free some space and run the same again: what is whole is kept",
        ) from error


def _damage(copy: FileCopy, what: str) -> DamageError:
    return DamageError(
        f"{copy.source}: {what}", f"`packer verify {copy.source.parent}` lists all damage"
    )
