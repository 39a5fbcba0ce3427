"""Shards seen as memory: read without copying what lies in memory anyway.

What happens when such a file is changed or cut short: `packer.files.mapped`. A failing disk is met
before that where possible: a range is made readable in advance, by a call that fails with an error;
the caller then reads in the ordinary way and reports why. See docs/decisions/0018-mapped-shards.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from packer.files.mapped import map_file
from packer.files.space import file_system, in_memory

if TYPE_CHECKING:
    from packer.files._mapped import Mapped

#: File systems of this machine's own disks: no other machine changes their files. btrfs and
#: overlay cannot be recognised by `st_dev`, so their files are read.
LOCAL = ("ext2", "ext3", "ext4", "xfs", "f2fs", "erofs", "squashfs")
#: Linux's MADV_POPULATE_READ, of 5.14; Python has no name for it.
_POPULATE_READ = 22


class Mapping:
    """A file as read-only memory; slices keep it mapped.

    Args:
        descriptor: Descriptor of the open file, which is not empty; may be closed afterwards.
        resident: Whether the file is in memory (tmpfs), so that no disk can fail.

    Attributes:
        memory: The whole file; valid as long as a slice of it is referenced.
        resident: As given.

    Raises:
        OSError: It cannot be mapped.
    """

    def __init__(self, descriptor: int, resident: bool) -> None:
        self.memory: Mapped = map_file(descriptor)
        self._content = memoryview(self.memory)
        self._address = int(np.frombuffer(self._content, np.uint8).ctypes.data)
        # mincore answers others with a yes, whatever there is, so that nobody can watch what users
        # of a machine read (Linux 5.2).
        self._is_told = os.fstat(descriptor).st_uid == os.geteuid()
        self.resident = resident

    def range(self, offset: int, size: int) -> memoryview | None:
        """A range of bytes; None if it has to be read to know whether it is there.

        Of a file on a disk, each of its pages is in memory by then.
        """
        # The file's size now: what lay behind it may still be cached, and is a fault all the same.
        if offset + size > min(len(self._content), os.fstat(self.memory.fileno()).st_size):
            return None
        if not self.resident:
            start = offset - offset % mmap.PAGESIZE
            place, length = self._address + start, offset + size - start
            # Checked first, as that takes an eightieth of the time.
            there = self._is_told and _is_in_memory(place, length)
            if not there and _call("madvise", ctypes.c_int)(place, length, _POPULATE_READ) != 0:
                return None  # an older kernel, or a page that cannot be read
        return self._content[offset : offset + size]


def is_quick(device: int) -> bool:
    """Return whether the size and times of files of this device (`st_dev`) are known locally,
    without a request to a server.
    """
    return file_system(device) in LOCAL or in_memory(device)


def map_memory(descriptor: int) -> Mapping | None:
    """An open file that lies in memory; None if it does not, is empty, or cannot be mapped."""
    with contextlib.suppress(OSError):
        status = os.fstat(descriptor)
        if status.st_size and in_memory(status.st_dev):
            return Mapping(descriptor, resident=True)
    return None


def map_local(descriptor: int) -> Mapping | None:
    """An open file on a disk of this machine; None if it is not, is empty, or cannot be mapped."""
    # Mapping fails if address space is short (ulimit -v); then the file is read.
    with contextlib.suppress(OSError):
        status = os.fstat(descriptor)
        if status.st_size and file_system(status.st_dev) in LOCAL:
            return Mapping(descriptor, resident=False)
    return None


def _is_in_memory(place: int, length: int) -> bool:
    """Return whether each page of a range of mapped addresses is in memory."""
    pages = np.empty(-(-length // mmap.PAGESIZE), np.uint8)
    answered = _call("mincore", ctypes.c_void_p)(place, length, pages.ctypes.data) == 0
    return answered and bool((pages & 1).all())


@functools.cache
def _call(name: str, last: type) -> Callable[[int, int, int], int]:
    """A function of the C library that takes an address, a length and something of type `last`;
    Python's own madvise holds the interpreter lock while the disk is read.
    """
    found = getattr(ctypes.CDLL(None), name)
    found.argtypes = ctypes.c_void_p, ctypes.c_size_t, last
    found.restype = ctypes.c_int
    function: Callable[[int, int, int], int] = found
    return function
