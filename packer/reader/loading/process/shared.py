"""Memory that two processes see, without a name that could outlive them: nothing is left behind
however they end, and it is no part of /dev/shm, which containers keep small.
"""

from __future__ import annotations

import mmap
import os

import numpy as np
import torch

from packer.reader.images.layout import Layout
from packer.reader.loading.sheets import Lending
from packer.reader.sharedmem import anonymous_file
from packer.types import Array


def mapped(descriptor: int, layout: Layout) -> Array:
    """A sheet's array over such memory; the descriptor may be closed afterwards."""
    memory = mmap.mmap(descriptor, layout.nbytes)
    return np.frombuffer(memory, layout.dtype).reshape(layout.shape)


class Slot:
    """A piece of shared memory.

    Args:
        number: By which both processes know it.
        layout: Of what is in it.

    Attributes:
        number: As given.
        array: This process's view.
        descriptor: Of the memory, to give to the other process; -1 once that has it.
    """

    def __init__(self, number: int, layout: Layout) -> None:
        self.number = number
        self.descriptor = anonymous_file(layout.nbytes)
        self.array = mapped(self.descriptor, layout)

    def close_descriptor(self) -> None:
        """It was given away, or is not wanted any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close_descriptor()


class SharedSheets:
    """Sheets of memory that another process writes to.

    Args:
        layout: Of each.
        keep: How many to keep while nobody needs them.

    Attributes:
        layout: As given.
    """

    def __init__(self, layout: Layout, keep: int) -> None:
        self.layout = layout
        self._slots = _Slots(layout)
        self._lending: Lending[Slot] = Lending(self._slots.fresh, keep, self._slots.drop)

    def take(self) -> SharedSheet:
        """A sheet that nobody uses."""
        return SharedSheet(self.layout, self._lending)

    def forgotten(self) -> list[int]:
        """Numbers of those that were too many, for the other process to forget, once."""
        dropped, self._slots.dropped = self._slots.dropped, []
        return dropped


class _Slots:
    """Makes slots, and remembers which were dropped. Nobody's own methods, as whoever lends slots
    has these, and a cycle would keep their memory.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.made = 0
        self.dropped: list[int] = []

    def fresh(self) -> Slot:
        self.made += 1
        return Slot(self.made, self.layout)

    def drop(self, slot: Slot) -> None:
        self.dropped.append(slot.number)


class SharedSheet:
    """See `packer.reader.loading.sheets.Sheet`.

    Attributes:
        slot: Where it is.
    """

    def __init__(self, layout: Layout, lending: Lending[Slot]) -> None:
        self._layout = layout
        self._lending = lending
        self.slot = lending.take()
        self.array = self.slot.array

    def tensor(self, count: int) -> torch.Tensor:
        """As a sheet's."""
        view = self.array[:count]
        self._lending.lend(self.slot, view)
        return self._layout.tensor(view)

    def give_back(self) -> None:
        """The other process is done with it, and nobody wants it."""
        self._lending.give_back(self.slot)
