"""Numbers that a process shares with the processes that it starts.

The memory has no name, so nothing is left behind however the processes end. It does not lie in
/dev/shm, which is small, full or read-only in many containers.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import numpy as np

from packer.types import Array

# File locks exclude processes, not the threads of one; this lock does that. No process forks while
# another of its threads holds it: the child would wait for a thread that it does not have.
_threads = threading.RLock()
os.register_at_fork(
    before=_threads.acquire,
    after_in_parent=_threads.release,
    after_in_child=_threads.release,
)


def anonymous_file(size: int) -> int:
    """Open a file of `size` bytes without a name; the caller closes the returned descriptor.

    Raises:
        OSError: There is no memory or, on systems without anonymous memory, no temporary folder.
    """
    descriptor = _anonymous()
    os.ftruncate(descriptor, size)
    return descriptor


class SharedArray:
    """A one-dimensional array in memory that this process shares with those that it starts.

    These are forked processes, and those that multiprocessing spawns with the array among their
    arguments. The numbers are zeros at first. Pickling or copying the array for any other purpose
    makes an independent array with the same numbers.

    Args:
        count: Number of elements.
        dtype: Type of the elements, as numpy names it.

    Attributes:
        array: The numbers, for reading and writing.
    """

    def __init__(self, count: int, dtype: str = "int64") -> None:
        item = np.dtype(dtype)
        # An empty file cannot be mapped.
        self._map(anonymous_file(max(1, count * item.itemsize)), count, item.str)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Array]:
        """Exclude other threads and processes that lock the same array. Do not start processes
        inside the block.
        """
        with _threads:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield self.array
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def copy(self) -> SharedArray:
        """An independent array with the same numbers."""
        return _copied(self.array)

    def _map(self, descriptor: int, count: int, dtype: str) -> None:
        self._descriptor = descriptor
        memory = mmap.mmap(descriptor, 0)
        self.array: Array = np.frombuffer(memory, dtype, count)

    def __reduce__(self) -> tuple[Callable[..., SharedArray], tuple[Any, ...]]:
        if get_spawning_popen() is None:
            return _copied, (self.array.copy(),)
        given = reduction.DupFd(self._descriptor)
        return _attached, (given, len(self.array), self.array.dtype.str)

    # A default argument, because Python may have emptied this module when it ends.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "_descriptor"):
            close(self._descriptor)


def _copied(values: Array) -> SharedArray:
    shared = SharedArray(len(values), values.dtype.str)
    shared.array[:] = values
    return shared


def _attached(given: Any, count: int, dtype: str) -> SharedArray:
    shared = SharedArray.__new__(SharedArray)
    shared._map(given.detach(), count, dtype)
    return shared


def _anonymous() -> int:
    # macOS and some sandboxes lack memfd_create.
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("packer", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
