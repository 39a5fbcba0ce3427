"""Which epoch a stream reads, and how far it has come, across the processes that read it.

A stream is read by the training process itself, or by DataLoader's workers, which have copies of
it. Each new loop reads the next epoch. In workers, nobody calls the stream in the training process
when a loop begins, so the first worker of the loop takes the epoch and leaves a note for the
others, in memory that they share with the training process.

That memory belongs to one training process. Another one that gets a copy of the stream, such as a
rank that was forked or spawned with it, takes memory of its own before it uses the stream or starts
workers.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import get_worker_info

from packer.errors import UsageError
from packer.reader.order import loops
from packer.reader.order.statedict import Place
from packer.reader.sharedmem import SharedArray

_SHARED = np.dtype(
    [
        # Where the next walk begins: `start` holds in `start_epoch` alone.
        *(("epoch", "i8"), ("start_epoch", "i8"), ("start", "i8"), ("chosen", "i8")),
        ("said", "i8"),  # by the user: the epoch or the place of the next walk
        # The last walk of anyone since the epoch was chosen; its stride is 0 if there was none.
        *(("last_epoch", "i8"), ("last_start", "i8"), ("last_stride", "i8"), ("reader", "i8")),
        ("warned", "i8"),
        # What the first worker of a loop took, for the others.
        ("notes", loops.NOTE, loops.NOTES),
    ]
)
#: Values of "reader": who read last.
_ITSELF, _WORKERS, _RESUMED_WORKERS, _FRAMEWORK = range(4)

_COUNT_STEPS = (
    "give state_dict(step=n), n the mini-batches that the loop has got from the loader; or use "
    "torchdata's StatefulDataLoader and its state_dict()"
)

#: Says whether nothing is left of an epoch from a position on.
Ended = Callable[[int], bool]


def never(position: int) -> bool:
    """Of a stream without an end: it is never reached."""
    return False


@dataclass
class Walk:
    """One process's way through an epoch.

    Attributes:
        epoch: Its number.
        start: Position in the sequence from which its steps are counted.
        step: Next mini-batch of this process.
        workers: Number of processes that take the mini-batches in turn.
        stride: Samples of a global mini-batch.
        ended: Whether it came to its end.
    """

    epoch: int
    start: int
    step: int
    workers: int
    stride: int = 1
    ended: bool = False


class Progress:
    """Epoch and position of a stream. DataLoader's workers have copies that share them."""

    def __init__(self) -> None:
        self._memory = SharedArray(_SHARED.itemsize // 8)
        self._training_process = os.getpid()
        self._walk: Walk | None = None  # the last one of this process
        self._walks = 0
        self._resumed: tuple[Place, int] | None = None  # given to this worker alone
        self._dropped = False  # the loop of this worker will not be read
        _known.add(self)

    def next(self, ended: Ended = never) -> Place:
        """Where the next walk begins."""
        self.own()
        return self._next(ended)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that is read next: from its beginning, or from where `resume` says if it
        is the epoch of that.
        """
        self.own()
        with self._memory.locked():
            if epoch != self._shared["start_epoch"]:
                self._shared["start"] = 0
            self._choose(epoch, chosen=True)

    def resume(self, place: Place) -> None:
        """Choose where the next walk begins; later ones begin at the beginning of an epoch.

        If nothing is left of the place's epoch, the next one is read; but if the epoch that has
        ended is chosen, before or after this, it gives nothing more.
        """
        self.own()
        with self._memory.locked():
            chosen = bool(self._shared["chosen"]) and self._shared["epoch"] == place.epoch
            self._shared["start_epoch"], self._shared["start"] = place.epoch, place.position
            self._choose(place.epoch, chosen)

    def advance(self, epoch: int, ended: Ended = never) -> None:
        """Go forward to the epoch that a framework counts for its next loop, unless the user said
        which one, or the stream's own count, to which loops that were left add, is higher.
        """
        self.own()
        with self._memory.locked():
            if not self._shared["said"] and epoch > self._next(ended).epoch:
                self._shared["epoch"] = epoch

    def resume_worker(self, place: Place, step: int, *, ended: bool = False) -> None:
        """The same for this worker process alone. If the training process has chosen another epoch,
        that holds.

        Args:
            place: Where the walk began.
            step: This worker's next mini-batch.
            ended: Whether it has none left. A StatefulDataLoader starts workers from such states
                only to drop them, so if they read the chosen epoch it stays chosen.
        """
        if not self._shared["chosen"] or place.epoch == self._shared["epoch"]:
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
        """A new walk of this process. All workers of one loop get the same epoch and start; the
        next loop gets the next epoch.

        Args:
            stride: Samples of a global mini-batch.
            ended: Whether nothing is left of an epoch from a position on.
            loop_stride: Samples that a step of the training loop takes on all ranks; None: stride.
            framework: Whether a framework reads ahead of the loop.
        """
        self.own()
        info = get_worker_info()
        number, workers = (0, 1) if info is None else (info.id, info.num_workers)
        self._walks += 1
        given, step = self._resumed or (None, number)
        loop = 0 if info is None else loops.loop_of_worker(info.seed - info.id, self._walks)
        with self._memory.locked():
            shared = self._shared
            noted = loops.find(shared["notes"], loop) if loop else None
            if noted is not None and noted != given:
                step = number
            place = noted or given or self._next(ended)
            if loop and noted is None:
                loops.note(shared["notes"], loop, place, workers - 1)
            taken = noted is not None and not (shared["chosen"] and shared["epoch"] == place.epoch)
            if not (taken or self._dropped):
                self._take(place, stride if loop_stride is None else loop_stride)
            if info is None:
                shared["reader"] = _FRAMEWORK if framework else _ITSELF
            else:
                shared["reader"] = _WORKERS if given is None else _RESUMED_WORKERS
        self._resumed, self._dropped = None, False
        self._walk = Walk(place.epoch, place.position, step, workers, stride)
        return self._walk

    def announce(self, loop_stride: int = 1, ended: Ended = never) -> None:
        """Another process begins a walk for this one: go on as if it was begun here."""
        self.own()
        with self._memory.locked():
            self._take(self._next(ended), loop_stride)
            self._shared["reader"] = _FRAMEWORK
            self._walk = None

    def walk(self) -> Walk | None:
        """The last walk of this process since the epoch was chosen."""
        self.own()
        return self._walk

    def place(self, ended: Ended = never) -> Place:
        """How far this process has come.

        Raises:
            UsageError: Workers or a framework read, and only the training loop knows how much of it
                it has got.
        """
        self.own()
        if self._shared["reader"] == _FRAMEWORK:
            raise UsageError(
                "accelerate has read ahead, so the stream cannot know what the training loop has "
                "got",
                _COUNT_STEPS,
            )
        if self._shared["reader"] != _ITSELF:
            raise UsageError(
                "worker processes have read ahead, so the stream cannot know what the training "
                "loop has got",
                _COUNT_STEPS,
            )
        walk = self._walk
        if walk is None:
            return self._next(ended)
        if walk.ended:
            return Place(walk.epoch + 1, 0)
        return Place(walk.epoch, walk.start + walk.step * walk.stride)

    def last(self) -> tuple[Place, int] | None:
        """Where the last walk began, whoever's it is, and the samples of its global mini-batches;
        None if there was none since the epoch was chosen.

        Raises:
            UsageError: A loader has resumed the workers, so only it knows.
        """
        self.own()
        shared = self._shared
        if shared["reader"] == _RESUMED_WORKERS:
            raise UsageError(
                "a loader has resumed its workers, so its mini-batches cannot be counted from here",
                "take the loader's state_dict()",
            )
        if not shared["last_stride"]:
            return None
        place = Place(int(shared["last_epoch"]), int(shared["last_start"]))
        return place, int(shared["last_stride"])

    def first_warning(self) -> bool:
        """Whether this is the first call of anyone."""
        self.own()
        with self._memory.locked():
            first = not self._shared["warned"]
            self._shared["warned"] = 1
        return first

    def own(self) -> None:
        """Take memory of its own, if this is a training process and the memory is another's."""
        if self._training_process != os.getpid() and get_worker_info() is None:
            self._memory = self._memory.copy()
            self._training_process = os.getpid()
            self._walk = None
            self._shared["reader"] = _ITSELF
            self._shared["last_stride"] = 0

    @property
    def _shared(self) -> Any:
        """The shared numbers by name, for reading and writing."""
        return self._memory.array.view(_SHARED)[0]

    def _next(self, ended: Ended) -> Place:
        shared = self._shared
        epoch = int(shared["epoch"])
        start = int(shared["start"]) if epoch == shared["start_epoch"] else 0
        if start and not shared["chosen"] and ended(start):
            return Place(epoch + 1, 0)
        return Place(epoch, start)

    def _choose(self, epoch: int, chosen: bool) -> None:
        shared = self._shared
        shared["epoch"], shared["chosen"], shared["said"] = epoch, chosen, 1
        shared["last_stride"] = 0
        shared["reader"] = _ITSELF
        self._walk = None
        self._resumed = None

    def _take(self, place: Place, stride: int) -> None:
        shared = self._shared
        shared["last_epoch"], shared["last_start"] = place.epoch, place.position
        shared["last_stride"] = stride
        shared["epoch"], shared["start"] = place.epoch + 1, 0
        shared["chosen"] = shared["said"] = 0

    def __getstate__(self) -> dict[str, Any]:
        self.own()
        return {**self.__dict__, "_walk": None, "_walks": 0, "_resumed": None, "_dropped": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _known.add(self)


# All of this process, so that they can own their memory before a worker gets it.
_known: weakref.WeakSet[Progress] = weakref.WeakSet()


def _own_all() -> None:
    for progress in list(_known):
        progress.own()


# A forked child may be a rank, with a loop of its own, or a worker that shares this process's loop.
# A worker can tell, but only its training process can make the memory that its workers share.
os.register_at_fork(before=_own_all)
