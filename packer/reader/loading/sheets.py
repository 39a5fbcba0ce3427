"""Memory for mini-batches' pictures.

A mini-batch of 128 pictures of 224×224 takes 19 MB: 4,700 pages, which the kernel clears one by one
when new memory is first written. So memory is used again, but only once no tensor shows it: a
tensor and all its views keep the numpy array alive that the tensor was made from, and when that
array is freed, the memory can be used again.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch

from packer.reader.images.layout import Layout
from packer.types import Array


class Sheet(Protocol):
    """Memory for one mini-batch's pictures.

    Attributes:
        array: The memory, in the layout's shape.
    """

    array: Array

    def tensor(self, count: int) -> torch.Tensor:
        """Return the first pictures as a tensor N×3×H×W. Call it once: the memory is the tensor's
        then.
        """


S = TypeVar("S")


class Lending(Generic[S]):
    """Lends things for as long as an array lives, and then lends them again.

    Args:
        make: Makes a thing.
        keep: Number of unused things to keep, and number of lent things to take back. If more are
            lent, the oldest are dropped: the loop keeps its mini-batches.
        drop: Called with each thing that is dropped.
    """

    def __init__(
        self, make: Callable[[], S], keep: int, drop: Callable[[S], None] | None = None
    ) -> None:
        self._make = make
        self._keep = keep
        self._drop = drop
        self._free: list[S] = []
        self._lent: dict[int, tuple[weakref.ref[Array], S]] = {}
        self._ended: deque[weakref.ref[Array]] = deque()

    def take(self) -> S:
        """Return a thing that is not in use."""
        self._collect()
        try:
            return self._free.pop()  # atomic, as the operations below: loops run in any thread
        except IndexError:
            return self._make()

    def lend(self, thing: S, array: Array) -> None:
        """Lend a thing until `array` is freed."""
        # No Python code runs when the array is freed: Python prints an error that is raised there
        # and goes on, so that a Ctrl-C at that moment would be lost.
        reference = weakref.ref(array, self._ended.append)
        self._lent[id(reference)] = reference, thing
        self._collect()
        while len(self._lent) > self._keep:
            self._dropped(self._lent.pop(next(iter(self._lent)))[1])

    def give_back(self, thing: S) -> None:
        """Take back a thing that is not in use any more."""
        if len(self._free) < self._keep:
            self._free.append(thing)
        else:
            self._dropped(thing)

    def _collect(self) -> None:
        while self._ended:
            lent = self._lent.pop(id(self._ended.popleft()), None)
            if lent is not None:  # else it was dropped at the same moment
                self.give_back(lent[1])

    def _dropped(self, thing: S) -> None:
        if self._drop is not None:
            self._drop(thing)


class HeapSheets:
    """Sheets of ordinary memory, used again.

    Args:
        layout: Layout of each sheet.
        keep: Number of unused sheets to keep.
    """

    def __init__(self, layout: Layout, keep: int) -> None:
        self._layout = layout
        # Not a method of this object: a reference cycle would keep the memory after the loader.
        self._lending: Lending[Array] = Lending(layout.empty, keep)

    def take(self) -> Sheet:
        """Return a sheet that is not in use."""
        return _HeapSheet(self._layout, self._lending)


class _HeapSheet:
    def __init__(self, layout: Layout, lending: Lending[Array]) -> None:
        self._layout = layout
        self._lending = lending
        self.array = lending.take()

    def tensor(self, count: int) -> torch.Tensor:
        view = self.array[:count]
        self._lending.lend(self.array, view)
        return self._layout.tensor(view)


class PinnedSheets:
    """Sheets of page-locked memory, from which a GPU copies while the CPU goes on. torch itself
    uses such memory again, once the copies from it have ended.

    Args:
        layout: Layout of each sheet.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def take(self) -> Sheet:
        """Return a sheet that is not in use."""
        return _PinnedSheet(self._layout)


class _PinnedSheet:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        dtype: Any = getattr(torch, layout.dtype)
        self._memory = torch.empty(layout.shape, dtype=dtype, pin_memory=True)
        self.array = self._memory.numpy()

    def tensor(self, count: int) -> torch.Tensor:
        memory = self._memory[:count]
        return memory if self._layout.planes else memory.permute(0, 3, 1, 2)
