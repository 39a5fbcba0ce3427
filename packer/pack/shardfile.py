"""An open shard file: positional reads, advice to the kernel, when to look for changes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from packer.files.regular import open_descriptor
from packer.pack.mapping import Mapping, is_quick

#: Of one piece of advice, at least. Of each call Linux takes no more than what it reads ahead by
#: itself (128 KiB), or the device's largest transfer, if that is more: the rest would be dropped.
ADVICE_BYTES = 128 << 10
#: Seconds between two looks at a file's size and times where each may ask a server.
LOOK_SECONDS = 1.0


class OpenShard:
    """An open file that closes when its last user lets go of it, so that dropping it never pulls it
    from under a thread that is reading.

    Args:
        path: The file, or a link to it.

    Attributes:
        number: The file descriptor.
        mapping: The file as memory, where that is safe.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self.mapping: Mapping | None = None
        self.number = -1
        self.number = open_descriptor(path, follow=True)
        # NFS tells the size of its READ calls: a piece of advice is one call then. Asked once, as
        # NFS asks the server each time when the file was read from in between.
        status = os.fstat(self.number)
        self._advice = max(ADVICE_BYTES, status.st_blksize)
        self._pause = 0.0 if is_quick(status.st_dev) else LOOK_SECONDS
        self._next_look = 0.0  # by the monotonic clock

    # A default argument, because Python may have emptied this module when it ends.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            try:  # noqa: SIM105 - as above
                close(self.number)
            except OSError:
                pass  # read-only: a failing close loses nothing

    def is_due(self) -> bool:
        """Whether to compare size and times now; and if so, when again."""
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
        """Tell the kernel that a range will be read soon, unless it is there.

        Raises:
            OSError: The kernel does not take advice for this file.
        """
        if (self.mapping is not None and self.mapping.resident) or self.is_cached(offset, size):
            return
        for start in range(offset, offset + size, self._advice):
            length = min(self._advice, offset + size - start)
            os.posix_fadvise(self.number, start, length, os.POSIX_FADV_WILLNEED)

    def is_cached(self, offset: int, size: int) -> bool:
        """Whether a range is in the page cache, going by three of its bytes: what is read in one go
        is dropped in one go. Asking for it costs as much as 150 calls for the pictures of a batch
        of 25 MB otherwise. If that is wrong, reading takes longer.
        """
        byte = bytearray(1)
        try:
            return all(
                os.preadv(self.number, [byte], place, os.RWF_NOWAIT) == 1
                for place in (offset, offset + size // 2, offset + size - 1)
            )
        except (OSError, AttributeError):
            return False  # it would have to wait; or nobody knows (NFS, FUSE; not Linux)

    def expect_no_order(self) -> None:
        """Tell the kernel not to read on behind what is asked for."""
        if hasattr(os, "posix_fadvise"):
            # A hint only: files that know nothing of it are read as others are.
            with contextlib.suppress(OSError):
                os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_RANDOM)
