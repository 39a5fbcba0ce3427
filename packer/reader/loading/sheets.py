"""Memory for mini-batches' pictures.

A mini-batch of 128 pictures of 224×224 has 19 MB: 4,700 pages, which the kernel clears one by one
when fresh memory is first written. So memory is used again, but only once nobody can see what was
in it: a tensor keeps the numpy array alive that it was made of, so do all views of it, whoever
holds them, and when that array goes, the memory comes back.
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
        array: To write them to, in the layout's shape.
    """

    array: Array

    def tensor(self, count: int) -> torch.Tensor:
        """The first pictures as a tensor N×3×H×W. Call it once; the sheet is the tensor's then."""


S = TypeVar("S")


class Lending(Generic[S]):
    """Things that are lent for as long as an array lives, and then lent again.

    Args:
        make: Makes one.
        keep: How many to keep while nobody needs them, and of how many to wait for the end; of more
            the oldest are let go, as somebody collects them.
        drop: Is given those beyond.
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
        """One that nobody uses."""
        self._collect()
        try:
            return self._free.pop()  # in one step, as others below: loops run in any thread
        except IndexError:
            return self._make()

    def lend(self, thing: S, array: Array) -> None:
        """Take `thing` back when `array` is gone."""
        # No code of ours runs when an array dies: Python prints what is raised there and goes on,
        # so that a Ctrl-C which fell into it would be lost.
        reference = weakref.ref(array, self._ended.append)
        self._lent[id(reference)] = reference, thing
        self._collect()
        while len(self._lent) > self._keep:
            self._let_go(self._lent.pop(next(iter(self._lent)))[1])

    def give_back(self, thing: S) -> None:
        """Nobody uses it any more."""
        if len(self._free) < self._keep:
            self._free.append(thing)
        else:
            self._let_go(thing)

    def _collect(self) -> None:
        while self._ended:
            lent = self._lent.pop(id(self._ended.popleft()), None)
            if lent is not None:  # else it ended just when it was let go
                self.give_back(lent[1])

    def _let_go(self, thing: S) -> None:
        if self._drop is not None:
            self._drop(thing)


class HeapSheets:
    """Sheets of ordinary memory, used again.

    Args:
        layout: Of each.
        keep: How many to keep while nobody needs them.
    """

    def __init__(self, layout: Layout, keep: int) -> None:
        self._layout = layout
        # No method of this object: a cycle would keep the memory when the loader is gone.
        self._lending: Lending[Array] = Lending(layout.empty, keep)

    def take(self) -> Sheet:
        """A sheet that nobody uses."""
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
    uses such memory again, and knows which copies from it are still under way.

    Args:
        layout: Of each.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def take(self) -> Sheet:
        """A sheet that nobody uses."""
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
