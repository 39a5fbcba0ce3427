"""Read byte ranges of a split's shards, from any process or thread, with checks of the file.

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
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from packer.errors import DamageError, PackerError
from packer.files.mapped import arm
from packer.files.regular import NotRegular
from packer.pack.columns import fingerprint
from packer.pack.mapping import Mapping, is_quick, map_local, map_memory
from packer.pack.opened import Pack
from packer.pack.shardfile import LOOK_SECONDS, OpenShard

if TYPE_CHECKING:
    from packer.files._mapped import Mapped

T = TypeVar("T")

#: Shards that a process keeps open. Many times the number read side by side (a window of 16 batches
#: is in at most 16 shards), and far below the usual limit of 1,024 files a process.
OPEN_SHARDS = 64
#: Errors of network file systems that opening the file again can cure.
_PASSING = (errno.ESTALE, errno.EIO)


@dataclass(frozen=True)
class _Mapped:
    """A shard that is mapped into memory.

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
        limit: Largest number of shards kept open.

    Attributes:
        changes: How many times a shard turned out to be another file, or the same one with another
            time, with the right fingerprint; earlier checks of payloads are then invalid.
    """

    _next_look: float  # when the index is compared again, by the monotonic clock

    def __init__(self, pack: Pack, limit: int = OPEN_SHARDS) -> None:
        self._pack = pack
        self._limit = limit
        self._start()

    def __reduce__(self) -> tuple[type[ShardFiles], tuple[Pack, int]]:
        return ShardFiles, (self._pack, self._limit)

    def read(self, shard: int, offset: int, size: int, announced: bool = False) -> memoryview:
        """Return `size` bytes of a shard from `offset` on; callers must not write to them.

        Args:
            shard: Number of the shard.
            offset: Offset of the first byte.
            size: Size in bytes. Of a shard that lies in memory (/dev/shm) they are not copied.
            announced: They were given to `advise` before. Of a shard on a disk of this machine they
                are not copied then: the page cache has them, or soon will.

        Raises:
            DamageError: The shard is missing, not the one that the index belongs to, or cut short.
            PackerError: The file system failed, twice where trying again may help.
        """

        def seen(opened: OpenShard) -> memoryview | None:
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

        def read(opened: OpenShard) -> int:
            got = opened.read_into(offset, buffer)
            # Checked afterwards, so that it holds for the bytes that were read.
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
        # By the monotonic clock, which is not read if the next check is always due.
        if not self._next_look or index.has_faults() or time.monotonic() >= self._next_look:
            index.confirm()
            self._next_look = time.monotonic() + LOOK_SECONDS if self._slow_index else 0.0
        for seen in self._mapped:
            memory = seen.memory()
            if memory is not None and not memory.is_same():
                self._look_at(seen.shard, memory)
        return self.changes

    def advise(self, shard: int, offset: int, size: int) -> None:
        """Advise the kernel that a range will be read soon, if the file supports it.

        On a network file system many ranges then are under way at once.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        # A hint only: the read that follows reports any error.
        with contextlib.suppress(OSError):
            self._descriptor(shard).advise(offset, size)

    def expect_no_order(self) -> None:
        """Advise the kernel not to read ahead: the next bytes of these files are not needed, or are
        announced with `advise`.
        """
        if self._pid != os.getpid():
            self._start()
        with self._lock:
            self._ordered = False
            for opened in self._open.values():
                opened.expect_no_order()

    def close(self) -> None:
        """Close all files; reading opens them again."""
        with self._lock:
            self._open.clear()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._ordered = True
        self._lock: threading.Lock = threading.Lock()
        self._open: OrderedDict[int, OpenShard] = OrderedDict()
        self._identity: dict[int, tuple[int, ...]] = {}
        #: Mapped shards, including closed ones of which a slice is still referenced.
        self._mapped: tuple[_Mapped, ...] = ()
        self._next_look = 0.0
        self._slow_index = not is_quick(self._pack.index.device)
        self.changes: int = 0

    def _descriptor(self, shard: int) -> OpenShard:
        if self._pid != os.getpid():
            # A forked child: the parent's lock may be held forever, and its checks do not count
            # here.
            self._start()
        with self._lock:
            found = self._open.get(shard)
            if found is not None:
                self._open.move_to_end(shard)
                return found
        opened = OpenShard(self._pack.shard_path(shard))
        if not self._ordered:
            opened.expect_no_order()
        self._map(shard, opened, map_memory(opened.number))
        self._check(shard, opened.number)
        with self._lock:
            self._open[shard] = opened
            while len(self._open) > self._limit:
                self._open.popitem(last=False)
        return opened

    def _map(self, shard: int, opened: OpenShard, mapping: Mapping | None) -> None:
        opened.mapping = mapping
        if mapping is not None:
            memory = mapping.memory
            with self._lock:
                alive = [seen for seen in self._mapped if seen.memory() is not None]
                self._mapped = (*alive, _Mapped(shard, weakref.ref(memory)))

    def _look_at(self, shard: int, memory: Mapped) -> None:
        """Check a file whose size or times have changed, or that is not whole."""
        if memory.faults:
            self._forget(shard)
            raise self._fault(shard, memory)
        stamp = memory.stamp()
        self._check(shard, memory.fileno())
        memory.accept(stamp)

    def _using(self, shard: int, offset: int, use: Callable[[OpenShard], T]) -> T:
        """Return the result of `use` on an open shard; open the shard anew if that may help."""
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
        except NotRegular as error:
            raise DamageError(f"{path}: {error.strerror}", self._pack.verify_hint()) from None
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
                self._pack.verify_hint(),
            )
        self._identity[shard] = identity
        self.changes += before is not None
