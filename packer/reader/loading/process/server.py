"""The other side of `packer.reader.loading.process.client`: a process that makes mini-batches."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from packer.errors import WorkerError
from packer.imaging.opencv import keep_to_one_thread
from packer.reader.batches.draft import Made
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Material, Wanted
from packer.reader.images.layout import Layout
from packer.reader.loading.pipeline import Pipeline
from packer.reader.loading.process.packed import pack
from packer.reader.loading.process.shared import mapped
from packer.types import Array

#: Seconds between two looks for the parent.
_PARENT_SECONDS = 0.5


class Ask(NamedTuple):
    """Make a mini-batch.

    Attributes:
        walk: Of which walk through an epoch.
        wanted: Which one.
        slot: Number of the slot for its pictures; None: none.
        fresh: Whether the slot's memory follows, as a descriptor.
        forget: Numbers of slots that are not used any more.
    """

    walk: int
    wanted: Wanted
    slot: int | None
    fresh: bool
    forget: tuple[int, ...]


class End(NamedTuple):
    """A walk is over.

    Attributes:
        walk: Which one.
    """

    walk: int


class Reply(NamedTuple):
    """What became of an ask; replies come in the order of the asks.

    Attributes:
        made: The mini-batch, its columns packed; None if making it failed.
        error: Or what went wrong.
        traceback: Of the error, as text.
        cause: Of the error, which pickling leaves out.
    """

    made: Made | None
    error: BaseException | None = None
    traceback: str = ""
    cause: BaseException | None = None


def serve(
    ends: tuple[Connection, Connection],
    material: Material,
    layout: Layout | None,
    threads: int,
) -> None:
    """Make what is asked for until the other end closes, or its process is gone.

    Args:
        ends: Of the connection: the training process's, of which a forked child has a copy, and
            ours, whence asks come and where replies go.
        material: What of.
        layout: Of slots.
        threads: That decode.
    """
    # Ctrl-C reaches the whole terminal group: when to stop is the training process's to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, name="packer-watch", daemon=True).start()
    theirs, ours = ends
    theirs.close()  # or its closing there would never be seen here
    # Pictures are decoded in threads already; and threads of torch's do not survive a fork.
    torch.set_num_threads(1)
    keep_to_one_thread()
    material.dataset.enter_process(material.schedule.options.rank)
    server = _Server(ours, layout, lambda: Pipeline(Maker(material), threads))
    # Its closing is how it says that it wants no more.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            server.receive()
    server.close()


def _end_with_parent() -> None:
    """End this process, whatever its other threads wait for, once the training process is gone.

    Two signs, as neither is enough: its end of a pipe closes, of which another child of its may
    hold a copy; and the parent's number changes, which is the fork server's with "forkserver".
    (Linux's PR_SET_PDEATHSIG would come as soon as the thread ends that started this process.)
    """
    training = multiprocessing.parent_process()
    assert training is not None
    parent = os.getppid()
    while os.getppid() == parent:
        if wait([training.sentinel], _PARENT_SECONDS):
            break
    # As the training process itself would end it: nothing is lost, all that it holds is memory.
    os.kill(os.getpid(), signal.SIGKILL)


class _Server:
    def __init__(
        self, connection: Connection, layout: Layout | None, begin: Callable[[], Pipeline]
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._begin = begin
        self._walks: dict[int, Pipeline] = {}
        self._slots: dict[int, _Slot] = {}
        self._results: SimpleQueue[Future[Made]] = SimpleQueue()
        # A daemon: it may be in the middle of a reply that nobody takes any more.
        threading.Thread(target=self._send, name="packer-send", daemon=True).start()

    def receive(self) -> None:
        """Take one message.

        Raises:
            EOFError: There will be none.
        """
        message = self._connection.recv()
        if isinstance(message, End):
            self._walks.pop(message.walk).close()
            return
        for number in message.forget:
            del self._slots[number]
        if message.fresh:
            self._slots[message.slot] = self._mapped()
        if message.walk not in self._walks:
            self._walks[message.walk] = self._begin()
        slot = None if message.slot is None else self._slots[message.slot]
        self._results.put(self._walks[message.walk].submit(message.wanted, slot))

    def close(self) -> None:
        """End all threads that decode."""
        for walk in self._walks.values():
            walk.close()

    def _mapped(self) -> _Slot:
        descriptor = reduction.recv_handle(self._connection)
        try:
            assert self._layout is not None
            return _Slot(mapped(descriptor, self._layout))
        finally:
            os.close(descriptor)

    def _send(self) -> None:
        """Reply to the asks, in their order."""
        while True:
            message = _dumped(_reply(self._results.get()))
            try:
                self._connection.send_bytes(message)
            except OSError:
                return  # the other end is closed, which the main thread sees, too


@dataclass(frozen=True)
class _Slot:
    array: Array


def _reply(result: Future[Made]) -> Reply:
    try:
        made = result.result()
        columns = {name: pack(column) for name, column in made.columns.items()}
        return Reply(Made(columns, made.in_sheet))
    except BaseException as error:  # the training loop's to see; also CancelledError
        text = "".join(traceback.format_exception(error))
        return Reply(None, error, text, error.__cause__)


def _dumped(reply: Reply) -> memoryview:
    """A reply as bytes; an error about it where what the user's code made cannot be sent."""
    pickler: Any = reduction.ForkingPickler
    try:
        message: memoryview = pickler.dumps(reply)
        if reply.error is not None:
            pickler.loads(message)  # many errors can be sent, but not be received
        return message
    except Exception as error:
        if reply.cause is not None:
            return _dumped(reply._replace(cause=None))
        if reply.error is None:
            instead = WorkerError(
                f"what the data set's transforms made cannot be sent between processes: {error}"
            )
        else:
            instead = WorkerError(f"{type(reply.error).__name__}: {reply.error}")
        dumped: memoryview = pickler.dumps(Reply(None, instead, reply.traceback))
        return dumped
