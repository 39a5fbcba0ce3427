"""Drop files from the page cache for `bench_read.py`, which needs no special rights."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path


def drop(folder: Path) -> None:
    """Drop all files below a folder from the page cache: posix_fadvise(POSIX_FADV_DONTNEED).

    Pages that a process has mapped stay. So would pages that are not on the disk yet: each file is
    synced before.
    """
    for path in _files(folder):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def cached(folder: Path) -> dict[str, float]:
    """Return the fraction of pages in the page cache for each entry of a folder: mincore(2)."""
    counts: dict[str, tuple[int, int]] = {}
    for path in _files(folder):
        name = path.relative_to(folder).parts[0]
        inside, pages = counts.get(name, (0, 0))
        mine = _pages(path)
        counts[name] = (inside + sum(mine), pages + len(mine))
    return {name: inside / pages for name, (inside, pages) in counts.items()}


def _pages(path: Path) -> list[int]:
    """Return 1 for each page of a file that is in the page cache, else 0."""
    mincore = ctypes.CDLL(None, use_errno=True).mincore
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    # A private mapping gives away its address, though nothing is written to it.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        states = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        if mincore(ctypes.addressof(start), len(mapped), states):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
        del start  # otherwise the mapping cannot be closed
    return [state & 1 for state in states]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size:
            yield path
