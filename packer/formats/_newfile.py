"""A new file of a format's writer: all bytes are written, or an OutputError is raised."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from packer.files.fsio import output_error, output_errors


class NewFile:
    """A new file, open for writing at any offset.

    Args:
        path: Path of the file; must not exist.

    Raises:
        OutputError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with output_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`, with one system call if that writes all bytes.

        Raises:
            OutputError: The file system reported an error.
        """
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._fd, rest, offset)
                rest = rest[written:]
                offset += written
        except OSError as error:
            raise output_error(self.path, error) from error

    def read(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at `offset`; fewer at the end of the file."""
        with output_errors(self.path):
            return os.pread(self._fd, size, offset)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        with output_errors(self.path):
            return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros.

        Raises:
            OutputError: The file system reported an error.
        """
        with output_errors(self.path):
            os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Sync and close the file. An NFS client may report a full disk only here.

        Raises:
            OutputError: The file system reported an error; the file is closed nevertheless.
        """
        fd, self._fd = self._fd, -1
        with output_errors(self.path):
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def abort(self) -> None:
        """Close the file without syncing; does nothing if it is closed. Never raises."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # the caller deletes the file
                os.close(fd)
