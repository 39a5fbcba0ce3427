"""Locks of an output folder: one run, or one run for each part, may write to it.

A lock is a file that is hard-linked to its name with its content in it, which succeeds for one
process on every file system, NFS v3 included. It names its holder, which renews its modification
time every few seconds. A dead holder on this machine is replaced at once; one on another machine
after its lock has not been renewed for a while by our own clock, as the clocks of two machines may
differ. docs/decisions/0014-locks.md gives the reasons.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from packer.errors import InUse, OutputError, WorkDone
from packer.files.fsio import (
    list_folder,
    output_errors,
    publish,
    remove_if_there,
    require_own_folder,
    write_temp,
)
from packer.files.regular import open_regular, reason
from packer.packing.holder import Holder, myself, read_holder

_LOCK_NAME = re.compile(r"lock-(all|\d+)")
#: Most bytes of a lock file; one has about 300.
_LOCK_BYTES = 64 << 10
#: Time of a lock that was not renewed yet, in ns since 1970.
_NOT_YET = 0


@dataclass(frozen=True)
class Timing:
    """How locks age.

    Attributes:
        renew: Seconds between two renewals. On NFS each is five round trips.
        patience: Consecutive checks, one every `renew` seconds, that must find the lock unchanged
            before its holder counts as dead: several, as a server may be slow or unreachable.
        first: `patience` for a lock that was never renewed: its holder starts renewing once its
            workers run, and before that it reads the first pictures.
    """

    renew: float = 10.0
    patience: int = 6
    first: int = 60


@dataclass
class Lock:
    """A lock that is held while the block runs.

    Args:
        folder: OUT/.packer, where lock files are.
        part: Number of the part, or None for a run that makes all shards and so excludes all
            other runs.
        job: The batch system's name of this run, for messages of other runs.
        timing: How locks age.
        note: Called with a message before the lock waits for another run's lock.

    Raises:
        InUse: Another run holds the lock; the message names it.
        WorkDone: The other run finished while this one waited: the folder is gone.
        OutputError: The file system refused.
    """

    folder: Path
    part: int | None
    job: str = ""
    timing: Timing = field(default_factory=Timing)
    note: Callable[[str], None] = field(default=lambda text: None)
    _mine: bytes = field(default=b"", init=False)
    _lost: str = field(default="", init=False)
    _renewed: float = field(default=0.0, init=False)  # by time.monotonic()
    _is_kept_alive: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _done: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> Lock:
        # The holder of the lock writes and removes files there.
        require_own_folder(self.folder)
        self._mine = myself(self.job).to_bytes()
        self._take(self._path)
        try:
            for other in sorted(self.folder.glob("lock-*")):
                excludes = self.part is None or other.name == "lock-all"
                if excludes and other != self._path and _LOCK_NAME.fullmatch(other.name):
                    self._clear(other)
            if _content(self._path) != self._mine:
                raise self._done_there()  # and has removed this lock with its folder
        except BaseException:
            self._release(self._path)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            # It may hang while a server is unreachable, and ends by itself afterwards.
            self._thread.join(self.timing.renew)
        self._release(self._path)

    def keep_alive(self) -> None:
        """Renew the lock from now on, in a thread. Only a process of one thread forks workers, so
        call this after they have started; a second call does nothing. If no thread can be started,
        `check` renews the lock.
        """
        if self._is_kept_alive:
            return
        self._is_kept_alive = True
        self._renew()
        thread = threading.Thread(target=self._keep_renewing, name="packer-lock", daemon=True)
        with contextlib.suppress(RuntimeError):  # at the limit of threads
            thread.start()
            self._thread = thread

    def check(self) -> None:
        """Stop a run whose lock is known to be lost.

        Raises:
            InUse: The lock is lost; the message names its new holder.
        """
        overdue = time.monotonic() - self._renewed >= self.timing.renew
        if self._is_kept_alive and self._thread is None and overdue:
            self._renew()
        if self._lost:
            raise InUse(
                f"{self.folder.parent}: {self._lost}",
                "finished shards are kept; run the same command again when that run is done",
            )

    def confirm(self) -> None:
        """Read the lock file again, before a step that needs the lock.

        Raises:
            InUse: The lock is lost.
        """
        self._renew()
        self.check()

    @property
    def _path(self) -> Path:
        return self.folder / ("lock-all" if self.part is None else f"lock-{self.part}")

    def _keep_renewing(self) -> None:
        while not self._lost and not self._done.wait(self.timing.renew):
            self._renew()

    def _renew(self) -> None:
        self._renewed = time.monotonic()
        try:
            with open_regular(self._path) as file:
                content = file.read(_LOCK_BYTES)
                if content == self._mine:
                    now = time.time_ns()
                    os.utime(file.fileno(), ns=(now, now))
                    return
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESTALE):
                return  # the server fails; the next renewal may succeed
            content = b""
        other = read_holder(content)
        self._lost = f"this run's lock was taken by {other or 'another run, which is done'}"

    def _take(self, path: Path) -> None:
        while True:
            if self._publish(path):
                return
            dead = self._dead_content(path)
            if dead is not None and self._succeed(path, dead):
                return

    def _clear(self, path: Path) -> None:
        """Remove the lock of a dead run, after taking it over, so that only one run removes it."""
        dead = self._dead_content(path)
        while dead is not None and not self._succeed(path, dead):
            dead = self._dead_content(path)
        self._release(path)

    def _succeed(self, path: Path, dead: bytes) -> bool:
        """Replace a dead holder. If several runs try, one succeeds: the one that creates the claim,
        a file that is then renamed over the lock, so that the lock always exists. A claim whose
        holder died before renaming is taken over in the same way.
        """
        claim = path.with_name(f"{path.name}.after-{hashlib.sha256(dead).hexdigest()[:16]}")
        if not self._publish(claim):
            taker = self._dead_content(claim)
            if taker is None or not self._succeed(claim, taker):
                return False
        if _content(path) != dead:
            remove_if_there(claim)
            return False
        try:
            with output_errors(path):
                claim.rename(path)
        except OutputError:
            # A retransmitted NFS call can fail although the first one succeeded.
            if _content(path) != self._mine:
                raise
        return True

    def _publish(self, path: Path) -> bool:
        """Create a lock file with its content in one step, unless the name is taken."""
        try:
            temp = write_temp(self.folder, path.name, self._mine)
            try:
                with output_errors(temp):
                    os.utime(temp, ns=(_NOT_YET, _NOT_YET))
                return publish(temp, path)
            finally:
                remove_if_there(temp)
        except OutputError as error:
            # A finished run clears the folder, temporary files of other runs included.
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            try:
                list_folder(self.folder)
            except (FileNotFoundError, NotADirectoryError):
                raise self._done_there() from None
            return False

    def _done_there(self) -> WorkDone:
        return WorkDone(
            f"{self.folder.parent}: the run that worked there is done", "run the same command again"
        )

    def _release(self, path: Path) -> None:
        """Remove a lock file if it was made by this process, not by its parent before a fork."""
        holder = read_holder(self._mine)
        if holder is not None and holder.pid == os.getpid() and _content(path) == self._mine:
            remove_if_there(path)

    def _dead_content(self, path: Path) -> bytes | None:
        """Content of a dead run's lock file; None if the lock is gone.

        Raises:
            InUse: Its holder is alive.
        """
        seen = _look(path)
        if seen is None:
            return None
        content, renewed = seen
        holder = read_holder(content)
        if holder is None:  # truncated by a power failure: its writer is dead
            return content
        if holder.is_here():
            if holder.lives_here():
                raise self._refusal(path, holder)
            return content
        limit = self.timing.first if renewed == _NOT_YET else self.timing.patience
        self.note(
            f"watching the lock of {holder} for up to {limit * self.timing.renew:.0f} s,"
            " to see whether that run lives"
        )
        same = 0
        while same < limit:
            start = time.monotonic()
            time.sleep(self.timing.renew)
            now = _look(path)
            if now is None:
                return None
            if now != seen:
                raise self._refusal(path, read_holder(now[0]) or holder)
            # A check that took long means a slow server, which delays the holder as well.
            same = same + 1 if time.monotonic() - start < 2 * self.timing.renew else 0
        return content

    def _refusal(self, path: Path, holder: Holder) -> InUse:
        return InUse(
            f"{self.folder.parent}: in use by another {holder}",
            f"if that run is surely dead, remove {path}",
        )


def _look(path: Path) -> tuple[bytes, int] | None:
    """Content and time in ns of a lock file. Opening it makes NFS clients ask the server."""
    try:
        with open_regular(path) as file:
            content = file.read(_LOCK_BYTES + 1)
            if len(content) > _LOCK_BYTES:
                raise OSError(errno.EFBIG, f"has more than {_LOCK_BYTES:,} bytes")
            return content, os.fstat(file.fileno()).st_mtime_ns
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        raise OutputError(
            f"{path}: cannot be read as a lock: {reason(error)}",
            f"if no run is at work there, remove {path}",
        ) from error


def _content(path: Path) -> bytes | None:
    seen = _look(path)
    return seen[0] if seen else None
