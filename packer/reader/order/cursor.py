"""Which epoch a stream reads, and how far it has come, across the processes that read it.

A stream is read by the training process itself, or by a DataLoader's workers, which have copies of
it. Each new loop reads the next epoch. In the training process no method of the stream is called
when workers begin a loop; so the first worker of a loop takes the epoch, in memory that all of them
share with the training process (`packer.reader.order.record`), and leaves a note there for the
others.

That memory belongs to one training process. Another one that gets a copy of the stream, such as a
rank that was forked or spawned with it, takes memory of its own before it uses the stream or starts
workers.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from torch.utils.data import get_worker_info

from packer.errors import UsageError
from packer.reader.order import loops
from packer.reader.order.record import Ended, EpochRecord, Origin, Reader, never
from packer.reader.order.statedict import Place
from packer.reader.order.walk import Walk

_COUNT_STEPS = (
    "give state_dict(step=n), n the mini-batches that the loop has got from the loader; or use "
    "torchdata's StatefulDataLoader and its state_dict()"
)


class EpochCursor:
    """Epoch and position of a stream. Copies in DataLoader's workers share them."""

    def __init__(self) -> None:
        self._record = EpochRecord()
        self._training_process = os.getpid()
        self._walk: Walk | None = None  # the last one of this process
        self._walks = 0
        self._resumed: tuple[Place, int] | None = None  # for the next walk of this worker alone
        self._dropped = False  # whether the loader drops what this worker makes next
        _cursors.add(self)

    def next(self, ended: Ended = never) -> Place:
        """Return where the next walk begins."""
        self.own()
        return self._record.next(ended)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next walk: from its beginning, or from the place that `resume`
        was given, if that is in this epoch.
        """
        self.own()
        with self._record.locked():
            self._record.choose(epoch)
        self._forget_walk()

    def resume(self, place: Place) -> None:
        """Choose where the next walk begins; the walks after it begin at the start of an epoch.

        If nothing is left of the place's epoch, the next epoch is read. But if that epoch is
        chosen, before or after this call, the walk gives no mini-batches.
        """
        self.own()
        with self._record.locked():
            self._record.resume(place)
        self._forget_walk()

    def advance(self, epoch: int, ended: Ended = never) -> None:
        """Go forward to the epoch that a framework counts for its next loop. An epoch or a place
        that the user has chosen holds, and so does a higher count of the stream's own, in which
        loops that were left count too.
        """
        self.own()
        with self._record.locked():
            self._record.advance(epoch, ended)

    def resume_worker(self, place: Place, step: int, *, ended: bool = False) -> None:
        """Choose where the next walk of this worker process alone begins. If the training process
        has chosen another epoch, that epoch is read instead.

        Args:
            place: Where the walk began.
            step: This worker's next mini-batch.
            ended: Whether no mini-batch is left for it. A StatefulDataLoader starts workers from
                such states only to drop them: if they read the chosen epoch, it stays chosen.
        """
        if self._record.origin != Origin.CHOSEN or self._record.epoch == place.epoch:
            self._resumed = (place, step)
        else:
            self._dropped = ended

    def begin(
        self,
        stride: int = 1,
        ended: Ended = never,
        *,
        loop_stride: int | None = None,
        framework: bool = False,
    ) -> Walk:
        """Begin a walk of this process. All workers of one loop get the same epoch and start; the
        next loop gets the next epoch.

        Args:
            stride: Samples of a global mini-batch.
            ended: Whether nothing is left of an epoch from a position on.
            loop_stride: Samples that a step of the training loop takes on all ranks; None: stride.
            framework: Whether a framework reads ahead of the loop.
        """
        self.own()
        self._walks += 1
        info = get_worker_info()
        loop_stride = stride if loop_stride is None else loop_stride
        with self._record.locked():
            if info is not None:
                place, step = self._begin_in_worker(info, loop_stride, ended)
                self._walk = Walk(place.epoch, place.position, step, info.num_workers, stride)
            else:
                place = self._record.next(ended)
                self._record.take(place, loop_stride)
                self._record.reader = Reader.FRAMEWORK if framework else Reader.ITSELF
                self._walk = Walk(place.epoch, place.position, 0, 1, stride)
        self._resumed, self._dropped = None, False
        return self._walk

    def announce(self, loop_stride: int = 1, ended: Ended = never) -> None:
        """Record a walk that another process begins in place of this one."""
        self.own()
        with self._record.locked():
            self._record.take(self._record.next(ended), loop_stride)
            self._record.reader = Reader.FRAMEWORK
        self._walk = None

    def walk(self) -> Walk | None:
        """Return this process's last walk since the epoch was chosen; None if there is none."""
        self.own()
        return self._walk

    def place(self, ended: Ended = never) -> Place:
        """Return how far this process has come.

        Raises:
            UsageError: Workers or a framework read, and only the training loop can count what it
                has got.
        """
        self.own()
        reader = self._record.reader
        if reader != Reader.ITSELF:
            ahead = "accelerate has" if reader == Reader.FRAMEWORK else "worker processes have"
            raise UsageError(
                f"{ahead} read ahead, so the stream cannot count what the training loop has got",
                _COUNT_STEPS,
            )
        walk = self._walk
        if walk is None:
            return self._record.next(ended)
        if walk.ended:
            return Place(walk.epoch + 1, 0)
        return Place(walk.epoch, walk.start + walk.step * walk.stride)

    def last(self) -> tuple[Place, int] | None:
        """Return where the last walk of any process began, and the samples that one step of its
        loop takes on all ranks; None if there was none since the epoch was chosen.

        Raises:
            UsageError: A loader has resumed the workers, and only its own state counts them.
        """
        self.own()
        record = self._record
        if record.reader == Reader.RESUMED_WORKERS:
            raise UsageError(
                "a loader has resumed its workers, so its mini-batches cannot be counted from here",
                "take the loader's state_dict()",
            )
        if not record.last_stride:
            return None
        return Place(record.last_epoch, record.last_start), record.last_stride

    def first_warning(self) -> bool:
        """Return whether this is the first call in any process."""
        self.own()
        with self._record.locked():
            first = not self._record.warned
            self._record.warned = True
        return first

    def own(self) -> None:
        """Take memory of its own, if this is a training process and the memory is another's."""
        if self._training_process != os.getpid() and get_worker_info() is None:
            self._record = self._record.copy()
            self._record.forget_last()
            self._training_process = os.getpid()
            self._walk = None

    def _begin_in_worker(self, info: Any, loop_stride: int, ended: Ended) -> tuple[Place, int]:
        """Return where the walk of this worker begins, and its first step."""
        record = self._record
        given, step = self._resumed or (None, info.id)
        loop = loops.loop_of_worker(info.seed - info.id, self._walks)
        noted = loops.find(record.notes, loop)
        if noted is not None and noted != given:
            step = info.id
        place = noted or given or record.next(ended)
        if noted is None:
            loops.add(record.notes, loop, place, info.num_workers - 1)
        taken = noted is not None and not record.chosen(place.epoch)
        if not (taken or self._dropped):
            record.take(place, loop_stride)
        record.reader = Reader.WORKERS if given is None else Reader.RESUMED_WORKERS
        return place, step

    def _forget_walk(self) -> None:
        self._walk = None
        self._resumed = None

    def __getstate__(self) -> dict[str, Any]:
        self.own()
        return {**self.__dict__, "_walk": None, "_walks": 0, "_resumed": None, "_dropped": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _cursors.add(self)


# All cursors of this process, which own their memory before a worker gets a copy.
_cursors: weakref.WeakSet[EpochCursor] = weakref.WeakSet()


def _own_all() -> None:
    for cursor in list(_cursors):
        cursor.own()


# A forked child may be a rank, with loops of its own, or a worker of this process's loop. A worker
# finds out which it is, but only its training process can make the memory that its workers share.
os.register_at_fork(before=_own_all)
