"""Memory that two processes share, without a name that could outlive them: nothing is left behind
however they end, and it is not in /dev/shm, which containers keep small.
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
    """Map such memory as a sheet's array; the descriptor may be closed afterwards."""
    memory = mmap.mmap(descriptor, layout.nbytes)
    return np.frombuffer(memory, layout.dtype).reshape(layout.shape)


class Segment:
    """Shared memory for the pictures of one mini-batch.

    Args:
        number: Number that identifies the segment in both processes.
        layout: Layout of the pictures.

    Attributes:
        number: As given.
        array: The memory as this process's array.
        descriptor: File descriptor of the memory, to be sent to the other process; -1 once it was.
    """

    def __init__(self, number: int, layout: Layout) -> None:
        self.number = number
        self.descriptor = anonymous_file(layout.nbytes)
        self.array = mapped(self.descriptor, layout)

    def close_descriptor(self) -> None:
        """Close the descriptor: it was sent, or is not needed any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close_descriptor()


class SharedSheets:
    """Sheets of memory that another process writes to.

    Args:
        layout: Layout of each sheet.
        keep: Number of unused sheets to keep.

    Attributes:
        layout: As given.
    """

    def __init__(self, layout: Layout, keep: int) -> None:
        self.layout = layout
        self._segments = _Segments(layout)
        self._lending: Lending[Segment] = Lending(self._segments.fresh, keep, self._segments.drop)

    def take(self) -> SharedSheet:
        """Return a sheet that is not in use."""
        return SharedSheet(self.layout, self._lending)

    def dropped(self) -> list[int]:
        """Return the numbers of the segments dropped since the last call: the other process can
        unmap them.
        """
        dropped, self._segments.dropped = self._segments.dropped, []
        return dropped


class _Segments:
    """Makes segments, and lists the dropped ones. An object of its own: Lending holds its methods,
    and methods of SharedSheets would be a reference cycle that keeps the memory.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.made = 0
        self.dropped: list[int] = []

    def fresh(self) -> Segment:
        self.made += 1
        return Segment(self.made, self.layout)

    def drop(self, segment: Segment) -> None:
        self.dropped.append(segment.number)


class SharedSheet:
    """A Sheet (`packer.reader.loading.sheets`) in shared memory.

    Attributes:
        segment: The memory.
    """

    def __init__(self, layout: Layout, lending: Lending[Segment]) -> None:
        self._layout = layout
        self._lending = lending
        self.segment = lending.take()
        self.array = self.segment.array

    def tensor(self, count: int) -> torch.Tensor:
        """See `Sheet.tensor`."""
        view = self.array[:count]
        self._lending.lend(self.segment, view)
        return self._layout.tensor(view)

    def give_back(self) -> None:
        """Let the memory be used again: the other process has finished with it, and no tensor shows
        it.
        """
        self._lending.give_back(self.segment)
