"""How far a stream has come, across the processes that read it.

A stream is read by its own process, or by DataLoader's workers, which have copies of it. What one
of them must know of another is in memory that they share: the chosen epoch reaches workers that
live through several, and the training process knows that there are workers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from torch.utils.data import get_worker_info

from packer.errors import UsageError
from packer.reader.hashing import combine
from packer.reader.sharedmem import SharedArray
from packer.reader.state import Place
from packer.types import Array

# Places in the shared memory: int64 each.
_EPOCH, _CHOSEN, _START, _START_EPOCH, _OWNER, _READERS, _WALK_START = range(7)
#: Values of _READERS: who has read in the chosen epoch.
_NOBODY_ELSE, _WORKERS, _RESUMED_WORKERS = range(3)


@dataclass
class Walk:
    """One process's way through an epoch.

    Attributes:
        epoch: Its number.
        start: Position in the sequence from which its steps are counted.
        step: Next mini-batch of this process.
        workers: How many processes take the mini-batches in turn.
        ended: Whether it came to its end.
    """

    epoch: int
    start: int
    step: int
    workers: int
    ended: bool = False


class Progress:
    """Epoch and position of a stream. Copies in DataLoader's workers see `set_epoch`."""

    def __init__(self) -> None:
        self._memory = SharedArray(7)
        self._walk: Walk | None = None  # the last one of this process
        self._walks = 0
        self._resumed: tuple[Place, int] | None = None  # given to this worker alone

    @property
    def _shared(self) -> Array:
        return self._memory.array

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_walk": None, "_walks": 0, "_resumed": None}

    @property
    def epoch(self) -> int:
        """The epoch that is read next."""
        return int(self._shared[_EPOCH])

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that is read next: from its beginning, or from where `resume` says if it
        is the epoch of that.
        """
        if epoch != self._shared[_START_EPOCH]:
            self._shared[_START] = 0
        self._choose(epoch)

    def resume(self, place: Place, ended: bool) -> None:
        """Choose the epoch that is read next, and where the next walk begins; later ones begin at
        its beginning.

        Args:
            place: Where to go on.
            ended: Whether nothing is left of its epoch. Then the next one is chosen; but if the
                epoch that has ended is chosen, before or after this, it gives nothing more.
        """
        chosen = self._shared[_CHOSEN] and self.epoch == place.epoch
        self._shared[_START] = place.position
        self._shared[_START_EPOCH] = place.epoch
        self._shared[_OWNER] = 0
        self._choose(place.epoch + 1 if ended and not chosen else place.epoch)

    def resume_worker(self, place: Place, step: int) -> None:
        """The same for this worker process alone. If the training process has chosen another epoch,
        that holds.
        """
        if not self._shared[_CHOSEN] or place.epoch == self.epoch:
            self._resumed = (place, step)

    def begin(self) -> Walk:
        """A new walk of this process: through the chosen epoch, from where it is to begin."""
        info = get_worker_info()
        number, workers = (0, 1) if info is None else (info.id, info.num_workers)
        self._walks += 1
        readers = _WORKERS
        if self._resumed is not None:
            place, step = self._resumed
            self._resumed = None
            self._walk = Walk(place.epoch, place.position, step, workers)
            readers = _RESUMED_WORKERS
        else:
            start = self._claim(info)
            self._walk = Walk(self.epoch, start, number, workers)
            self._shared[_WALK_START] = start
        self._shared[_READERS] = _NOBODY_ELSE if info is None else readers
        return self._walk

    def walk(self) -> Walk | None:
        """The last walk of this process since the epoch was chosen."""
        return self._walk

    def place(self, stride: int) -> Place:
        """How far this process has come.

        Args:
            stride: Samples of a global mini-batch.

        Raises:
            UsageError: Workers read, and only the training loop knows how much of it it has got.
        """
        if self._shared[_READERS] != _NOBODY_ELSE:
            raise UsageError(
                "worker processes have read ahead, so the stream cannot know what the training "
                "loop has got",
                "give state_dict(step=n), n the mini-batches that the loop has got from the "
                "loader; or use torchdata's StatefulDataLoader and its state_dict()",
            )
        walk = self._walk
        if walk is None:
            return Place(self.epoch, self._pending())
        if walk.ended:
            return Place(walk.epoch + 1, 0)
        return Place(walk.epoch, walk.start + walk.step * stride)

    def walk_start(self) -> Place:
        """Where the last walk began, whoever's it is.

        Raises:
            UsageError: A loader has resumed the workers, so only it knows.
        """
        if self._shared[_READERS] == _RESUMED_WORKERS:
            raise UsageError(
                "a loader has resumed its workers, so its mini-batches cannot be counted from here",
                "take the loader's state_dict()",
            )
        if self._walk is not None:
            return Place(self._walk.epoch, self._walk.start)
        return Place(self.epoch, int(self._shared[_WALK_START]))

    def _choose(self, epoch: int) -> None:
        self._shared[_EPOCH] = epoch
        self._shared[_CHOSEN] = 1
        self._shared[_READERS] = _NOBODY_ELSE
        self._shared[_WALK_START] = self._pending()
        self._walk = None
        self._resumed = None

    def _pending(self) -> int:
        """Where the next walk begins."""
        shared = self._shared
        if shared[_OWNER] or shared[_EPOCH] != shared[_START_EPOCH]:
            return 0
        return int(shared[_START])

    def _claim(self, info: Any) -> int:
        """Where this walk begins. The first one after `resume`, which may be that of several
        workers, takes the place given there.
        """
        # All workers of one walk, and no others, have this number: DataLoader draws a base seed
        # when it starts them, and each begins as many walks as it lives through epochs.
        base = os.getpid() if info is None else info.seed - info.id
        owner = combine(base, self._walks) >> 1 | 1
        if self._pending():
            self._shared[_OWNER] = owner
        return int(self._shared[_START]) if self._shared[_OWNER] == owner else 0
