"""Mini-batches made by threads of another process.

If the training loop runs much Python of its own, threads beside it wait for the interpreter lock.
So everything but the loop moves into one process. It writes pictures to memory that both processes
share; nothing is copied.

The training process sends requests, each with a memory segment for the pictures; the other process
sends replies in the same order. So the training process alone decides how much memory there is and
how many mini-batches are under way, and it waits for nothing but the replies.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing import reduction
from typing import Any

from packer.errors import UsageError, WorkerError
from packer.reader.batches.draft import Made
from packer.reader.batches.material import Material, Wanted
from packer.reader.loading.process.packed import unpack
from packer.reader.loading.process.server import End, Reply, Request, serve
from packer.reader.loading.process.shared import SharedSheet, SharedSheets

#: Seconds within which a process that was killed, or died, has ended.
_GONE_SECONDS = 5.0


class Remote:
    """A process that makes mini-batches.

    Args:
        material: What mini-batches are made from.
        threads: Number of decode threads in the process.
        keep: Number of unused memory segments to keep.
        method: How the process starts: "fork", "spawn" or "forkserver"; None: multiprocessing's
            default.

    Attributes:
        sheets: Memory for pictures; None: each picture is sent by itself.
        schedule: Schedule of the mini-batches.

    Raises:
        UsageError: This process must not have children, `method` is invalid, or it is "fork" while
            other threads run.
    """

    def __init__(self, material: Material, threads: int, keep: int, method: str | None) -> None:
        if multiprocessing.current_process().daemon:
            raise UsageError(
                "a loader with a process of its own cannot run in a worker process",
                "iterate over it directly, without a DataLoader, or leave out process=…",
            )
        try:
            context: Any = multiprocessing.get_context(method)
        except ValueError as error:
            raise UsageError(f"process {method!r}: {error}") from None
        if context.get_start_method() == "fork":
            _check_alone()
        layout = material.layout()
        self.sheets = None if layout is None else SharedSheets(layout, keep)
        self.schedule = material.schedule
        self._pid = os.getpid()
        self._pending: deque[_PendingReply] = deque()
        self._loops = 0
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve,
            args=((self._connection, theirs), material, layout, threads),
            name="packer-loader",
            daemon=True,
        )
        # Ctrl-C is blocked until the new process has made itself ignore it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._end = weakref.finalize(self, _end, self._pid, self._connection, self._process)

    @property
    def usable(self) -> bool:
        """Whether this process started it, and has not stopped it."""
        return self._pid == os.getpid() and self._end.alive

    def begin(self) -> RemoteLoop:
        """Begin a loop."""
        self._loops += 1
        return RemoteLoop(self, self._loops)

    def stop(self) -> None:
        """End the process. It also ends when this object and its loops are dropped."""
        self._end()

    def request(self, loop: int, wanted: Wanted, sheet: SharedSheet | None) -> _PendingReply:
        """Request a mini-batch.

        Raises:
            WorkerError: The process is dead.
        """
        segment = None if sheet is None else sheet.segment
        dropped: list[int] = []
        if self.sheets is not None:
            dropped = self.sheets.dropped()
        fresh = segment is not None and segment.descriptor >= 0
        number = None if segment is None else segment.number
        with self._whole():
            self._connection.send(Request(loop, wanted, number, fresh, tuple(dropped)))
            if segment is not None and fresh:
                reduction.send_handle(self._connection, segment.descriptor, self._process.pid)
                segment.close_descriptor()
        pending = _PendingReply(self, sheet)
        self._pending.append(pending)
        return pending

    def end(self, loop: int) -> None:
        """End a loop."""
        with self._whole():
            self._connection.send(End(loop))

    def receive(self, wait: bool) -> bool:
        """Receive one reply; return whether there was one.

        Args:
            wait: Wait until a reply comes.

        Raises:
            WorkerError: The process is dead.
        """
        with self._whole():
            if not wait and not self._connection.poll():
                return False
            reply = self._connection.recv()
        self._pending.popleft().arrive(reply)
        return True

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Send or receive a whole message, or stop the process: after half a message, as when
        Ctrl-C comes in between, the bytes that follow would be taken for something else.
        """
        try:
            if not self.usable:
                raise EOFError
            yield
        except (EOFError, OSError) as error:
            self._process.join(_GONE_SECONDS)
            code = self._process.exitcode
            self.stop()
            raise WorkerError(
                f"the process that makes mini-batches {_ended(code)}",
                "its messages are on stderr; the system also sends SIGKILL when memory runs out",
            ) from error
        except BaseException:
            self.stop()
            raise


class RemoteLoop:
    """One loop over mini-batches of another process: a `Producer` of
    `packer.reader.loading.prefetch`.

    Args:
        remote: The process that makes the mini-batches.
        number: Number of the loop.
    """

    def __init__(self, remote: Remote, number: int) -> None:
        self._remote = remote
        self._number = number
        self._pending: list[_PendingReply] = []

    def submit(self, wanted: Wanted, sheet: SharedSheet | None) -> _PendingReply:
        """Request a mini-batch; raises WorkerError if the process is dead."""
        reply = self._remote.request(self._number, wanted, sheet)
        self._pending = [pending for pending in self._pending if not pending.taken]
        self._pending.append(reply)
        return reply

    def close(self) -> None:
        """End the loop: no more mini-batches are needed."""
        if not self._remote.usable:
            return
        for pending in self._pending:
            pending.abandon()
        if self._pending:
            self._remote.end(self._number)


class _PendingReply:
    """A mini-batch that was requested."""

    def __init__(self, remote: Remote, sheet: SharedSheet | None) -> None:
        # Weak, as `remote` holds this object until its reply comes: a reference cycle would keep
        # the process alive until Python looks for cycles. The RemoteLoop holds `remote` meanwhile.
        self._remote = weakref.proxy(remote)
        self._sheet = sheet
        self._reply: Reply | None = None
        self._abandoned = False
        self.taken = False

    def done(self) -> bool:
        """Return whether the reply is here."""
        # If the process is dead, `result` raises that.
        with contextlib.suppress(WorkerError):
            while self._reply is None and self._remote.receive(wait=False):
                pass
        return self._reply is not None

    def exception(self) -> BaseException | None:
        """Return the error that came instead of a mini-batch; None if there is none."""
        return None if self._reply is None else self._reply.error

    def result(self) -> Made:
        """Wait for the mini-batch and return it.

        Raises:
            WorkerError: The process is dead, or its mini-batch or error cannot be pickled.
            Exception: The error that was raised in the process, with its own type.
        """
        while self._reply is None:
            self._remote.receive(wait=True)
        reply, self._reply, self.taken = self._reply, None, True
        if reply.made is None:
            self._give_back()
            error = reply.error or WorkerError("no reply")
            try:
                cause: BaseException = _Elsewhere(f"\n{reply.traceback}")
                if reply.cause is not None:
                    reply.cause.__cause__, cause = cause, reply.cause
                raise error from cause
            finally:  # or the error's traceback would refer to the error, through this frame
                del error, reply
        self._sheet = None
        columns = {name: unpack(column) for name, column in reply.made.columns.items()}
        return Made(columns, reply.made.in_sheet)

    def arrive(self, reply: Reply) -> None:
        """Take the reply."""
        self._reply = reply
        if self._abandoned:
            self._give_back()

    def abandon(self) -> None:
        """Give the mini-batch up; its memory is free once the other process is done with it."""
        self._abandoned = True
        if self._reply is not None:
            self._give_back()

    def _give_back(self) -> None:
        sheet, self._sheet = self._sheet, None
        if sheet is not None:
            sheet.give_back()


class _Elsewhere(Exception):
    """Carries the traceback of the other process, which is shown above this one's."""


def _check_alone() -> None:
    """Raise UsageError if a forked process could wait for ever: it inherits locks in their present
    state, but not the threads that hold them. The usual lock is that of a module which a thread is
    importing, as numpy and torch do at the first use of many functions.
    """
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    ]
    if others:
        names = ", ".join(repr(thread.name) for thread in others[:3])
        raise UsageError(
            f"process='fork' while other threads run ({names}{', …' if len(others) > 3 else ''}): "
            "locks that they hold would stay locked in the new process",
            "use process='spawn', or begin this loop before other threads start",
        )


def _end(pid: int, connection: Any, process: Any) -> None:
    """Kill the process. It holds nothing that could be lost."""
    if pid == os.getpid():  # not in a child that was forked since
        connection.close()
        process.kill()
        process.join(_GONE_SECONDS)


def _ended(code: int | None) -> str:
    if code is None:
        return "does not answer"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
