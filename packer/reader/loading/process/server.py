"""The process that makes mini-batches for `packer.reader.loading.process.client`."""

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

#: Seconds between two checks whether the training process is alive.
_PARENT_SECONDS = 0.5


class Request(NamedTuple):
    """Requests a mini-batch.

    Attributes:
        loop: Number of the loop that it belongs to.
        wanted: Which mini-batch.
        segment: Number of the memory segment for its pictures; None: there is none.
        fresh: Whether the segment is new, so that its file descriptor follows.
        dropped: Numbers of segments that are not used any more.
    """

    loop: int
    wanted: Wanted
    segment: int | None
    fresh: bool
    dropped: tuple[int, ...]


class End(NamedTuple):
    """Ends a loop.

    Attributes:
        loop: Number of the loop.
    """

    loop: int


class Reply(NamedTuple):
    """The result of a request; replies come in the order of the requests.

    Attributes:
        made: The mini-batch, its columns packed; None if making it failed.
        error: The error if making it failed.
        traceback: Traceback of the error, as text.
        cause: Cause of the error, which pickling the error leaves out.
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
    """Make mini-batches until the training process closes its end of the connection, or has ended.

    Args:
        ends: The two ends of the connection: the training process's, of which a forked child has a
            copy, and this process's, which receives requests and sends replies.
        material: What mini-batches are made from.
        layout: Layout of the pictures in a segment; None: there are no segments.
        threads: Number of decode threads.
    """
    # Ctrl-C reaches all processes of the terminal, but the training process decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, name="packer-watch", daemon=True).start()
    theirs, ours = ends
    theirs.close()  # or `recv` would not raise EOFError when the training process closes it
    # Pictures are decoded in several threads already; and torch's threads do not survive a fork.
    torch.set_num_threads(1)
    keep_to_one_thread()
    material.dataset.enter_process(material.schedule.options.rank)
    server = _Server(ours, layout, lambda: Pipeline(Maker(material), threads))
    # The training process ends the service by closing its end.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            server.receive()
    server.close()


def _end_with_parent() -> None:
    """End this process, whatever its other threads wait for, once the training process has ended.

    Two signs are checked, as neither is enough: the training process's end of a pipe closes, but
    another child may hold a copy of it; and the number of the parent process changes, but with
    "forkserver" the parent is the fork server. (Linux's PR_SET_PDEATHSIG would come as soon as the
    thread that started this process ends.)
    """
    training = multiprocessing.parent_process()
    assert training is not None
    parent = os.getppid()
    while os.getppid() == parent:
        if wait([training.sentinel], _PARENT_SECONDS):
            break
    # As the training process itself would end it. Nothing is lost: this process holds only memory.
    os.kill(os.getpid(), signal.SIGKILL)


class _Server:
    def __init__(
        self, connection: Connection, layout: Layout | None, begin: Callable[[], Pipeline]
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._begin = begin
        self._loops: dict[int, Pipeline] = {}
        self._surfaces: dict[int, _Surface] = {}
        self._results: SimpleQueue[Future[Made]] = SimpleQueue()
        # A daemon: it may be blocked in a reply that the other end does not receive any more.
        threading.Thread(target=self._send, name="packer-send", daemon=True).start()

    def receive(self) -> None:
        """Receive and handle one message.

        Raises:
            EOFError: The other end is closed.
        """
        message = self._connection.recv()
        if isinstance(message, End):
            self._loops.pop(message.loop).close()
            return
        for number in message.dropped:
            del self._surfaces[number]
        if message.fresh:
            self._surfaces[message.segment] = self._mapped()
        if message.loop not in self._loops:
            self._loops[message.loop] = self._begin()
        surface = None if message.segment is None else self._surfaces[message.segment]
        self._results.put(self._loops[message.loop].submit(message.wanted, surface))

    def close(self) -> None:
        """End all decode threads."""
        for pipeline in self._loops.values():
            pipeline.close()

    def _mapped(self) -> _Surface:
        descriptor = reduction.recv_handle(self._connection)
        try:
            assert self._layout is not None
            return _Surface(mapped(descriptor, self._layout))
        finally:
            os.close(descriptor)

    def _send(self) -> None:
        """Send the replies, in the order of the requests."""
        while True:
            message = _dumped(_reply(self._results.get()))
            try:
                self._connection.send_bytes(message)
            except OSError:
                return  # the other end is closed; the main thread gets EOFError


@dataclass(frozen=True)
class _Surface:
    array: Array


def _reply(result: Future[Made]) -> Reply:
    try:
        made = result.result()
        columns = {name: pack(column) for name, column in made.columns.items()}
        return Reply(Made(columns, made.in_sheet))
    except BaseException as error:  # raised in the training loop; also CancelledError
        text = "".join(traceback.format_exception(error))
        return Reply(None, error, text, error.__cause__)


def _dumped(reply: Reply) -> memoryview:
    """Pickle a reply; if it cannot be pickled, a WorkerError in its place."""
    pickler: Any = reduction.ForkingPickler
    try:
        message: memoryview = pickler.dumps(reply)
        if reply.error is not None:
            pickler.loads(message)  # many errors can be pickled but not unpickled
        return message
    except Exception as error:
        if reply.cause is not None:
            return _dumped(reply._replace(cause=None))
        if reply.error is None:
            instead = WorkerError(
                f"the transforms' results cannot be sent between processes: {error}"
            )
        else:
            instead = WorkerError(f"{type(reply.error).__name__}: {reply.error}")
        dumped: memoryview = pickler.dumps(Reply(None, instead, reply.traceback))
        return dumped
