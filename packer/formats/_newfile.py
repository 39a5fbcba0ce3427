"""A file that a format's writer makes: written whole or refused with an OutputError."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from packer.files.fsio import output_error, output_errors


class NewFile:
    """A new file, open for writing at any place.

    Args:
        path: Must not exist.

    Raises:
        OutputError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with output_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; one call of the system if it takes all at once.

        Raises:
            OutputError: The file system refused.
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
        """Up to `size` bytes at `offset`, fewer at the end of the file."""
        with output_errors(self.path):
            return os.pread(self._fd, size, offset)

    def size(self) -> int:
        """Bytes of the file."""
        with output_errors(self.path):
            return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Cut or lengthen the file, with zeros.

        Raises:
            OutputError: The file system refused.
        """
        with output_errors(self.path):
            os.ftruncate(self._fd, size)

    def close(self) -> None:
        """Sync and close: an NFS client may report a full disk only here.

        Raises:
            OutputError: The file system refused; the file is closed all the same.
        """
        fd, self._fd = self._fd, -1
        with output_errors(self.path):
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def abort(self) -> None:
        """Close without syncing; never raises; nothing happens if it is closed already."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # the file is thrown away
                os.close(fd)
