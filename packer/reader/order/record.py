"""What the processes that read a stream share: where the next loop begins, and the last loop.

Where the next loop begins is `epoch`, `start` and one of three states (`Origin`):

              set_epoch               resume
    CHOSEN ◄───────────── COUNTED ─────────────► RESUMED
      │                    ▲   ▲                    │
      └─── a loop begins ──┘   └── a loop begins ───┘
    CHOSEN ◄──────────────── set_epoch ───────── RESUMED
    CHOSEN ───── resume in another epoch ──────► RESUMED

    COUNTED  all of `epoch`, which follows from the loops before: `start` is 0
    RESUMED  `epoch` from `start` on; if nothing is left of it, the epoch after it
    CHOSEN   `epoch` from `start` on, even if nothing is left of it

- When a loop begins, `epoch` becomes that loop's epoch plus 1, and `start` 0.
- `set_epoch` keeps `start` if the epoch stays the same, else `start` becomes 0.
- `resume` in the epoch that was chosen sets `start`, and the state stays CHOSEN.
- `advance`, a framework's own count of epochs, can raise `epoch` in COUNTED alone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from packer.reader.order import loops
from packer.reader.order.statedict import Place
from packer.reader.sharedmem import SharedArray
from packer.types import Array

#: Returns whether nothing is left of an epoch from a position on.
Ended = Callable[[int], bool]


def never(position: int) -> bool:
    """Return False: the `Ended` of a stream without an end."""
    return False


class Origin(enum.IntEnum):
    """Why the next loop begins where it does: see the module's text."""

    COUNTED = 0
    RESUMED = 1
    CHOSEN = 2


class Reader(enum.IntEnum):
    """What read the last loop."""

    ITSELF = 0
    WORKERS = 1
    RESUMED_WORKERS = 2
    FRAMEWORK = 3


_NUMBERS = ("epoch", "start", "origin", "last_epoch", "last_start", "last_stride", "reader")
_DTYPE = np.dtype(
    [*((name, "i8") for name in (*_NUMBERS, "warned")), ("notes", loops.NOTE, loops.NOTES)]
)


class _Number:
    """An integer of the shared record, as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: EpochRecord, owner: type) -> int:
        return int(record.values[self._name])

    def __set__(self, record: EpochRecord, value: int) -> None:
        record.values[self._name] = value


class EpochRecord:
    """The record, in shared memory; zeros at first. Whoever changes it, or needs several of its
    values to agree, holds `locked()`.

    Attributes:
        epoch: Epoch of the next loop.
        start: Position in that epoch at which the next loop begins.
        origin: An `Origin`.
        last_epoch: Epoch of the last loop.
        last_start: Position at which the last loop began.
        last_stride: Samples that one step of the last loop takes on all ranks; 0 if no loop has
            begun since the epoch was chosen.
        reader: A `Reader`: what read the last loop.
        warned: Whether the one warning was given.
    """

    epoch = _Number()
    start = _Number()
    origin = _Number()
    last_epoch = _Number()
    last_start = _Number()
    last_stride = _Number()
    reader = _Number()
    warned = _Number()

    def __init__(self, memory: SharedArray | None = None) -> None:
        self._memory = SharedArray(_DTYPE.itemsize // 8) if memory is None else memory

    @property
    def values(self) -> Any:
        """The numbers by name, as one numpy record over the shared memory."""
        return self._memory.array.view(_DTYPE)[0]

    @property
    def notes(self) -> Array:
        """The notes that the workers of one loop leave for each other: see `loops`."""
        notes: Array = self.values["notes"]
        return notes

    def locked(self) -> AbstractContextManager[Array]:
        """Keep out all other threads and processes that lock the same record."""
        return self._memory.locked()

    def copy(self) -> EpochRecord:
        """Return an independent record with the same values, in memory of its own."""
        return EpochRecord(self._memory.copy())

    def next(self, ended: Ended) -> Place:
        """Return where the next loop begins."""
        if self.start and self.origin != Origin.CHOSEN and ended(self.start):
            return Place(self.epoch + 1, 0)
        return Place(self.epoch, self.start)

    def chosen(self, epoch: int) -> bool:
        """Return whether this epoch was chosen for the next loop."""
        return self.origin == Origin.CHOSEN and self.epoch == epoch

    def choose(self, epoch: int) -> None:
        """Let the next loop read this epoch."""
        start = self.start if epoch == self.epoch else 0
        self._set_next(Place(epoch, start), Origin.CHOSEN)

    def resume(self, place: Place) -> None:
        """Let the next loop begin at this place."""
        origin = Origin.CHOSEN if self.chosen(place.epoch) else Origin.RESUMED
        self._set_next(place, origin)

    def advance(self, epoch: int, ended: Ended) -> None:
        """Let the next loop read this epoch if the loops so far lead to a lower one, and neither
        `choose` nor `resume` has decided it.
        """
        if self.origin == Origin.COUNTED and epoch > self.next(ended).epoch:
            self.epoch = epoch

    def take(self, place: Place, stride: int) -> None:
        """Record that a loop begins at this place.

        Args:
            place: Where it begins.
            stride: Samples that one step of it takes on all ranks.
        """
        self.last_epoch, self.last_start, self.last_stride = place.epoch, place.position, stride
        self.epoch, self.start, self.origin = place.epoch + 1, 0, Origin.COUNTED

    def forget_last(self) -> None:
        """Forget the last loop."""
        self.last_stride, self.reader = 0, Reader.ITSELF

    def _set_next(self, place: Place, origin: Origin) -> None:
        self.epoch, self.start, self.origin = place.epoch, place.position, origin
        self.forget_last()
