"""An open shard file: positional reads, advice to the kernel, when to look for changes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from packer.files.regular import open_descriptor
from packer.pack.mapping import Mapping, is_quick

#: Smallest size of one advice in bytes. Linux uses no more of each call than its own read-ahead
#: (128 KiB), or the device's largest transfer, if that is more, and ignores the rest.
ADVICE_BYTES = 128 << 10
#: Seconds between two checks of a file's size and times if each may need a request to a server.
LOOK_SECONDS = 1.0


class OpenShard:
    """An open file that closes with its last reference, so that it is never closed while a thread
    is reading.

    Args:
        path: The file, or a link to it.

    Attributes:
        number: The file descriptor.
        mapping: The file as memory, if that is safe.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self.mapping: Mapping | None = None
        self.number = -1
        self.number = open_descriptor(path, follow=True)
        # NFS reports the size of its READ calls: one advice is one call then. Read once, as NFS
        # sends a request each time if the file was read in between.
        status = os.fstat(self.number)
        self._advice = max(ADVICE_BYTES, status.st_blksize)
        self._pause = 0.0 if is_quick(status.st_dev) else LOOK_SECONDS
        self._next_look = 0.0  # by the monotonic clock

    # A default argument, because Python may have emptied this module when it ends.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            # Read-only: a failing close loses nothing, and no caller can handle it.
            try:  # noqa: SIM105 - this module may have been emptied, as above
                close(self.number)
            except OSError:
                pass

    def is_due(self) -> bool:
        """Return whether to compare size and times now; if so, set the next time."""
        now = time.monotonic() if self._pause else 0.0
        if now < self._next_look:
            return False
        self._next_look = now + self._pause
        return True

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer`; returns the bytes read, fewer only at the file's end.

        One call may return less than asked for: at 2 GiB, at a signal, on some network file
        systems.
        """
        done = 0
        while done < len(buffer):
            got = os.preadv(self.number, [buffer[done:]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def advise(self, offset: int, size: int) -> None:
        """Advise the kernel that a range will be read soon, unless it is cached.

        Raises:
            OSError: The kernel does not take advice for this file.
        """
        if (self.mapping is not None and self.mapping.resident) or self.is_cached(offset, size):
            return
        for start in range(offset, offset + size, self._advice):
            length = min(self._advice, offset + size - start)
            os.posix_fadvise(self.number, start, length, os.POSIX_FADV_WILLNEED)

    def is_cached(self, offset: int, size: int) -> bool:
        """Return whether a range is probably in the page cache, from three of its bytes: pages that
        are read together are evicted together. Otherwise the advice for a batch of 25 MB would take
        150 calls. If the answer is wrong, reading only takes longer.
        """
        byte = bytearray(1)
        try:
            return all(
                os.preadv(self.number, [byte], place, os.RWF_NOWAIT) == 1
                for place in (offset, offset + size // 2, offset + size - 1)
            )
        except (OSError, AttributeError):
            return False  # not cached, or unknown (NFS, FUSE, not Linux)

    def expect_no_order(self) -> None:
        """Advise the kernel not to read ahead."""
        if hasattr(os, "posix_fadvise"):
            # A hint only: files without support for it are read all the same.
            with contextlib.suppress(OSError):
                os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)
