"""Mini-batches made by threads of another process.

Where the training loop's own Python is heavy, threads beside it would wait for it: one interpreter
lock for all. So everything but the loop moves into one process. Pictures are written to memory that
both processes see; nothing is copied.

The training process asks and names a slot for the pictures, the other one replies, in order. So it
is always the training process that decides what memory there is and what is under way, and neither
waits for the other but for what it asked.
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
from packer.reader.loading.process.server import Ask, End, Reply, serve
from packer.reader.loading.process.shared import SharedSheet, SharedSheets

#: Seconds in which a process that was killed, or died, is gone.
_GONE_SECONDS = 5.0


class Remote:
    """A process that makes mini-batches.

    Args:
        material: What of.
        threads: That decode there.
        keep: Slots to keep while nobody needs them.
        method: How it starts: "fork", "spawn" or "forkserver"; None: as multiprocessing does.

    Attributes:
        sheets: Memory for pictures; None: each comes by itself.
        schedule: Of the mini-batches that it makes.

    Raises:
        UsageError: This process may have no children, another `method`, or "fork" while other
            threads run.
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
        self._asked: deque[_Answer] = deque()
        self._walks = 0
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve,
            args=((self._connection, theirs), material, layout, threads),
            name="packer-loader",
            daemon=True,
        )
        # Until it says itself that Ctrl-C is not meant for it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._end = weakref.finalize(self, _end, self._pid, self._connection, self._process)

    @property
    def usable(self) -> bool:
        """Whether it can be asked from here: it was not stopped, and is this process's own."""
        return self._pid == os.getpid() and self._end.alive

    def begin(self) -> Walk:
        """A new walk through an epoch."""
        self._walks += 1
        return Walk(self, self._walks)

    def stop(self) -> None:
        """End the process; so does dropping this, and whatever it was asked for, with it."""
        self._end()

    def ask(self, walk: int, wanted: Wanted, sheet: SharedSheet | None) -> _Answer:
        """Ask for a mini-batch.

        Raises:
            WorkerError: The process is dead.
        """
        slot = None if sheet is None else sheet.slot
        forget: list[int] = []
        if self.sheets is not None:
            forget = self.sheets.forgotten()
        fresh = slot is not None and slot.descriptor >= 0
        number = None if slot is None else slot.number
        with self._whole():
            self._connection.send(Ask(walk, wanted, number, fresh, tuple(forget)))
            if slot is not None and fresh:
                reduction.send_handle(self._connection, slot.descriptor, self._process.pid)
                slot.close_descriptor()
        answer = _Answer(self, sheet)
        self._asked.append(answer)
        return answer

    def end(self, walk: int) -> None:
        """A walk is over."""
        with self._whole():
            self._connection.send(End(walk))

    def receive(self, wait: bool) -> bool:
        """Take one reply; whether there was one.

        Args:
            wait: For one to come.

        Raises:
            WorkerError: The process is dead.
        """
        with self._whole():
            if not wait and not self._connection.poll():
                return False
            reply = self._connection.recv()
        self._asked.popleft().arrive(reply)
        return True

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """A message is sent or received whole, or it was the last one: after half of one, as when
        Ctrl-C comes in between, the two processes would misunderstand each other.
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
                "what it had to say is on stderr; SIGKILL is also what the system sends when "
                "memory runs out",
            ) from error
        except BaseException:
            self.stop()
            raise


class Walk:
    """One walk through an epoch: what `packer.reader.loading.prefetch` asks.

    Args:
        remote: Who makes the mini-batches.
        number: Of the walk.
    """

    def __init__(self, remote: Remote, number: int) -> None:
        self._remote = remote
        self._number = number
        self._answers: list[_Answer] = []

    def submit(self, wanted: Wanted, sheet: SharedSheet | None) -> _Answer:
        """Ask for a mini-batch; raises WorkerError if the process is dead."""
        answer = self._remote.ask(self._number, wanted, sheet)
        self._answers = [asked for asked in self._answers if not asked.taken]
        self._answers.append(answer)
        return answer

    def close(self) -> None:
        """No more is wanted."""
        if not self._remote.usable:
            return
        for answer in self._answers:
            answer.abandon()
        if self._answers:
            self._remote.end(self._number)


class _Answer:
    """A mini-batch that was asked for."""

    def __init__(self, remote: Remote, sheet: SharedSheet | None) -> None:
        # Weak, as that one remembers us until the reply is here: a cycle would keep the process
        # alive until Python looks for cycles. Who waits for us has a walk, and that has it.
        self._remote = weakref.proxy(remote)
        self._sheet = sheet
        self._reply: Reply | None = None
        self._abandoned = False
        self.taken = False

    def done(self) -> bool:
        """Whether the reply is here."""
        # That the process is dead is said to who waits for it.
        with contextlib.suppress(WorkerError):
            while self._reply is None and self._remote.receive(wait=False):
                pass
        return self._reply is not None

    def exception(self) -> BaseException | None:
        """The error that came instead of a mini-batch."""
        return None if self._reply is None else self._reply.error

    def result(self) -> Made:
        """Its columns, once they are here.

        Raises:
            WorkerError: The process is dead, or what it made or raised cannot be sent.
            Exception: Whatever went wrong there, with its own type.
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
            finally:  # or its traceback would have itself, by this frame
                del error, reply
        self._sheet = None
        columns = {name: unpack(column) for name, column in reply.made.columns.items()}
        return Made(columns, reply.made.in_sheet)

    def arrive(self, reply: Reply) -> None:
        """The reply is here."""
        self._reply = reply
        if self._abandoned:
            self._give_back()

    def abandon(self) -> None:
        """Nobody wants it. Its slot is free once the other process is done with it."""
        self._abandoned = True
        if self._reply is not None:
            self._give_back()

    def _give_back(self) -> None:
        sheet, self._sheet = self._sheet, None
        if sheet is not None:
            sheet.give_back()


class _Elsewhere(Exception):
    """The traceback of the other process, shown above this one's."""


def _check_alone() -> None:
    """Raise UsageError where a forked process could wait for ever: it gets the locks as they are at
    that moment, but not the threads that hold them. The usual one is that of a module which a
    thread is just importing, as numpy and torch do at first use of many a function.
    """
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread()
    ]
    if others:
        names = ", ".join(repr(thread.name) for thread in others[:3])
        raise UsageError(
            f"process='fork' while other threads run ({names}{', …' if len(others) > 3 else ''}): "
            "what they hold would stay locked in the new process",
            "process='spawn', or begin this loop before what starts threads",
        )


def _end(pid: int, connection: Any, process: Any) -> None:
    """End a process of ours. It holds nothing that could be lost."""
    if pid == os.getpid():  # and not in a child that was forked since
        connection.close()
        process.kill()
        process.join(_GONE_SECONDS)


def _ended(code: int | None) -> str:
    if code is None:
        return "does not answer any more"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
