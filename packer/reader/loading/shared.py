"""Memory that two processes see, without a name that could outlive them: nothing is left behind
however they end, and it is no part of /dev/shm, which containers keep small.
"""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np
import torch

from packer.reader.loading.sheets import Layout, Lending
from packer.types import Array


def anonymous_file(size: int) -> int:
    """A descriptor of `size` bytes that have no name: the caller's to close."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("packer", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


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
        dropped: Numbers of those that were too many, for the other process to forget.
    """

    def __init__(self, layout: Layout, keep: int) -> None:
        self.layout = layout
        self.dropped: list[int] = []
        self._made = 0
        self._lending: Lending[Slot] = Lending(self._fresh, keep, self._drop)

    def take(self) -> SharedSheet:
        """A sheet that nobody uses."""
        return SharedSheet(self.layout, self._lending)

    def _fresh(self) -> Slot:
        self._made += 1
        return Slot(self._made, self.layout)

    def _drop(self, slot: Slot) -> None:
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
