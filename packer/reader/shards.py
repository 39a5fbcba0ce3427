"""Positional reads from a split's shards: exact, from any process or thread, of the right file.

A shard is compared with its fingerprint when a process first reads it, and again whenever its size
or times have changed since, or it was opened anew and is no longer the same file. No lock is taken
and nothing is written: a finished pack never changes, so it can be read from a read-only folder,
and while others hold locks on it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from packer.columns import fingerprint
from packer.errors import DamageError, PackerError
from packer.mapped import arm
from packer.reader.mapping import Mapping, is_quick, map_local, map_memory
from packer.reader.pack import Pack

if TYPE_CHECKING:
    from packer._mapped import Mapped

T = TypeVar("T")

#: Shards that a process keeps open. Many times what is read side by side (a window of 16 batches
#: lies in at most 16 shards), and far below the usual limit of 1,024 files a process.
OPEN_SHARDS = 64
#: Of one piece of advice, at least. Of each call Linux takes no more than what it reads ahead by
#: itself (128 KiB), or the device's largest transfer, if that is more: the rest would be dropped.
ADVICE_BYTES = 128 << 10
#: Seconds between two looks at a file's size and times where each may ask a server.
_LOOK_SECONDS = 1.0
#: Errors of network file systems that opening the file again can cure.
_PASSING = (errno.ESTALE, errno.EIO)


class _Descriptor:
    """An open file that closes when its last user lets go of it, so that dropping it here never
    pulls it from under a thread that is reading.

    Attributes:
        number: The file descriptor.
        advice: Bytes of one piece of advice.
        mapping: The file as memory, where that is safe.
        next_look: When its size and times are compared again, by the monotonic clock.
    """

    def __init__(self, path: Path) -> None:
        self.mapping: Mapping | None = None
        self.next_look = 0.0
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        # NFS tells the size of its READ calls: a piece of advice is one call then. Asked once, as
        # NFS asks the server each time when the file was read from in between.
        status = os.fstat(self.number)
        self.advice = max(ADVICE_BYTES, status.st_blksize)
        self._pause = 0.0 if is_quick(status.st_dev) else _LOOK_SECONDS

    def is_due(self) -> bool:
        """Whether to compare size and times now; and if so, when again."""
        now = time.monotonic() if self._pause else 0.0
        if now < self.next_look:
            return False
        self.next_look = now + self._pause
        return True

    def __del__(self) -> None:
        if self.number >= 0:
            # Read-only: a failing close loses nothing, and there is no one to tell.
            with contextlib.suppress(OSError):
                os.close(self.number)


@dataclass(frozen=True)
class _Mapped:
    """A shard that is used as memory.

    Attributes:
        shard: Its number.
        memory: All of it.
    """

    shard: int
    memory: weakref.ref[Mapped]


class ShardFiles:
    """Reads byte ranges of a split's shards.

    Safe to use from threads, after a fork, and after pickling: files are opened where and when they
    are first read.

    Args:
        pack: The open pack.
        limit: Most shards kept open at a time.

    Attributes:
        changes: How many times a shard turned out to be another file, or the same one with another
            time, with the right fingerprint; what was checked before then holds no more.
    """

    _next_look: float  # when the index is compared again, by the monotonic clock

    def __init__(self, pack: Pack, limit: int = OPEN_SHARDS) -> None:
        self._pack = pack
        self._limit = limit
        self._start()

    def __reduce__(self) -> tuple[type[ShardFiles], tuple[Pack, int]]:
        return ShardFiles, (self._pack, self._limit)

    def read(self, shard: int, offset: int, size: int, announced: bool = False) -> memoryview:
        """`size` bytes of a shard from `offset` on; not to be written to.

        Args:
            shard: Number of the shard.
            offset: Of the first byte.
            size: In bytes. Of a shard that lies in memory (/dev/shm) they are not copied.
            announced: They were given to `advise` before. Of a shard on a disk of this machine they
                are not copied then: the page cache has them, or soon will.

        Raises:
            DamageError: The shard is missing, not the one that the index belongs to, or cut short.
            PackerError: The file system failed, twice where trying again may help.
        """

        def seen(opened: _Descriptor) -> memoryview | None:
            if opened.mapping is None and announced:
                self._map(shard, opened, map_local(opened.number))
            mapping = opened.mapping
            if mapping is None or not (announced or mapping.resident):
                return None
            return mapping.range(offset, size)

        found = self._using(shard, offset, seen)
        if found is None:
            found = np.empty(size, np.uint8).data  # not bytearray: that would be zeroed first
            self.read_into(shard, offset, found)
        return found

    def read_into(self, shard: int, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` (bytes) from a shard's `offset` on; raises as `read`."""

        def read(opened: _Descriptor) -> int:
            got = _read_exactly(opened, offset, buffer)
            # Afterwards: then this is true of what was read.
            if got == len(buffer) and opened.is_due():
                self._check(shard, opened.number)
            return got

        got = self._using(shard, offset, read)
        if got != len(buffer):
            raise self._short(shard, offset + got)

    def look(self) -> int:
        """Compare the files that are used as memory, shards and index, with what they were. Called
        before and after they are used: what was made of them in between is right if both calls
        return the same.

        Returns:
            `changes`, see there.

        Raises:
            DamageError: A file has changed, or a part of it cannot be read any more.
        """
        if self._pid != os.getpid():
            self._start()
        arm()
        index = self._pack.index
        # Of the monotonic clock, which nobody asks where the next look is always due.
        if not self._next_look or index.has_faults() or time.monotonic() >= self._next_look:
            index.confirm()
            self._next_look = time.monotonic() + _LOOK_SECONDS if self._slow_index else 0.0
        for seen in self._mapped:
            memory = seen.memory()
            if memory is not None and not memory.is_same():
                self._look_at(seen.shard, memory)
        return self.changes

    def advise(self, shard: int, offset: int, size: int) -> None:
        """Tell the kernel that a range will be read soon, where it can be told.

        On a network file system many ranges then are under way at once.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        # A hint only: whatever is wrong shows, with its reason, in the read that follows.
        with contextlib.suppress(OSError):
            opened = self._descriptor(shard)
            if opened.mapping is not None and opened.mapping.resident:
                return
            if _is_cached(opened, offset, size):
                return
            for start in range(offset, offset + size, opened.advice):
                length = min(opened.advice, offset + size - start)
                os.posix_fadvise(opened.number, start, length, os.POSIX_FADV_WILLNEED)

    def expect_no_order(self) -> None:
        """Tell the kernel not to read on behind what is asked for: what comes next in these files
        is not wanted, or is announced with `advise`.
        """
        if self._pid != os.getpid():
            self._start()
        with self._lock:
            self._ordered = False
            for opened in self._open.values():
                _expect_no_order(opened)

    def close(self) -> None:
        """Close all files; reading opens them again."""
        with self._lock:
            self._open.clear()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._ordered = True
        self._lock: threading.Lock = threading.Lock()
        self._open: OrderedDict[int, _Descriptor] = OrderedDict()
        self._identity: dict[int, tuple[int, ...]] = {}
        #: What is used as memory, also by those who still hold a slice of a shard closed since.
        self._mapped: tuple[_Mapped, ...] = ()
        self._next_look = 0.0
        self._slow_index = not is_quick(self._pack.index.device)
        self.changes: int = 0

    def _descriptor(self, shard: int) -> _Descriptor:
        if self._pid != os.getpid():
            # A forked child: the parent's lock may be held for ever, and its checks are not ours.
            self._start()
        with self._lock:
            found = self._open.get(shard)
            if found is not None:
                self._open.move_to_end(shard)
                return found
        opened = _Descriptor(self._pack.shard_path(shard))
        if not self._ordered:
            _expect_no_order(opened)
        self._map(shard, opened, map_memory(opened.number))
        self._check(shard, opened.number)
        with self._lock:
            self._open[shard] = opened
            while len(self._open) > self._limit:
                self._open.popitem(last=False)
        return opened

    def _map(self, shard: int, opened: _Descriptor, mapping: Mapping | None) -> None:
        opened.mapping = mapping
        if mapping is not None:
            memory = mapping.memory
            with self._lock:
                alive = [seen for seen in self._mapped if seen.memory() is not None]
                self._mapped = (*alive, _Mapped(shard, weakref.ref(memory)))

    def _look_at(self, shard: int, memory: Mapped) -> None:
        """Compare a file that has another size or other times, or is not whole."""
        if memory.faults:
            self._forget(shard)
            raise self._fault(shard, memory)
        stamp = memory.stamp()
        self._check(shard, memory.fileno())
        memory.accept(stamp)

    def _using(self, shard: int, offset: int, use: Callable[[_Descriptor], T]) -> T:
        """What `use` returns of an open shard; with the shard opened anew where that may help."""
        path = self._pack.shard_path(shard)
        try:
            try:
                return use(self._descriptor(shard))
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                self._forget(shard)
                return use(self._descriptor(shard))
        except FileNotFoundError:
            raise DamageError(f"{path}: is missing", self._pack.verify_hint()) from None
        except OSError as error:
            raise PackerError(
                f"{path}: cannot be read at offset {offset}: {error.strerror} (errno {error.errno})"
            ) from error

    def _short(self, shard: int, end: int) -> DamageError:
        path = self._pack.shard_path(shard)
        return DamageError(f"{path}: ends at byte {end}", self._pack.verify_hint())

    def _fault(self, shard: int, memory: Mapped) -> DamageError:
        size, expected = memory.stamp()[2], self._pack.record.shards[shard].size
        what = "a part of it cannot be read"
        if size != expected:
            what = f"has {size} bytes, not {expected}"
        return DamageError(
            f"{self._pack.shard_path(shard)}: {what}, since it was opened; "
            "it was changed while it was in use, or its disk fails",
            self._pack.verify_hint(),
        )

    def _forget(self, shard: int) -> None:
        with self._lock:
            self._open.pop(shard, None)
            self._identity[shard] = ()  # no file's: compare it anew

    def _check(self, shard: int, descriptor: int) -> None:
        status = os.fstat(descriptor)
        times = status.st_mtime_ns, status.st_ctime_ns
        identity = (status.st_dev, status.st_ino, status.st_size, *times)
        before = self._identity.get(shard)
        if before == identity:
            return
        record = self._pack.record.shards[shard]
        found = fingerprint(descriptor, status.st_size)
        if status.st_size != record.size or found != record.fingerprint:
            index = self._pack.root / self._pack.record.index
            raise DamageError(
                f"{self._pack.shard_path(shard)}: is not the shard that {index.name} belongs to; "
                "one of them was swapped or changed",
                f"`packer verify {self._pack.root}` tells which; copy it again, or convert again",
            )
        self._identity[shard] = identity
        self.changes += before is not None


def _expect_no_order(opened: _Descriptor) -> None:
    if hasattr(os, "posix_fadvise"):
        # A hint only: files that know nothing of it are read as others are.
        with contextlib.suppress(OSError):
            os.posix_fadvise(opened.number, 0, 0, os.POSIX_FADV_RANDOM)


def _is_cached(opened: _Descriptor, offset: int, size: int) -> bool:
    """Whether a range is in the page cache, going by three of its bytes: what is read in one go is
    dropped in one go. Asking for it costs as much as 150 calls for the pictures of a batch of 25 MB
    otherwise. If that is wrong, reading takes longer.
    """
    byte = bytearray(1)
    try:
        return all(
            os.preadv(opened.number, [byte], place, os.RWF_NOWAIT) == 1
            for place in (offset, offset + size // 2, offset + size - 1)
        )
    except (OSError, AttributeError):
        return False  # it would have to wait; or nobody knows (NFS, FUSE; not Linux)


def _read_exactly(opened: _Descriptor, offset: int, buffer: memoryview) -> int:
    """Fill `buffer`; returns the bytes read, fewer only at the file's end.

    One call may return less than asked for: at 2 GiB, at a signal, on some network file systems.
    """
    done = 0
    while done < len(buffer):
        got = os.preadv(opened.number, [buffer[done:]], offset + done)
        if got == 0:
            break
        done += got
    return done
