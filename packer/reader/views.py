"""Lists of a pack's samples that hold no object a sample.

A real list of a million paths costs 100 MB, and every worker process copies it bit by bit, as
merely looking at a Python object writes to it (its reference count).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

from packer.reader.pack import Pack

T = TypeVar("T")


class LazyList(Sequence[T], Generic[T]):
    """A read-only list whose entries are made when they are asked for."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack

    @abstractmethod
    def _entry(self, sample: int) -> T: ...

    def __len__(self) -> int:
        return len(self._pack)

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> list[T]: ...

    def __getitem__(self, place: int | slice) -> T | list[T]:
        # range knows negative indices, slices and IndexError.
        found = range(len(self))[place]
        made = self._entry(found) if isinstance(found, int) else [self._entry(i) for i in found]
        self._pack.index.confirm()
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__: Any = None  # equal to lists, which have none

    def __repr__(self) -> str:
        head = ", ".join(repr(entry) for entry in self[:3])
        return f"[{head}{', …' if len(self) > 3 else ''}] ({len(self)} entries)"


class Keys(LazyList[str]):
    """The samples' original paths."""

    def _entry(self, sample: int) -> str:
        return self._pack.key(sample)


class Samples(LazyList[tuple[str, int]]):
    """(original path, label), as ImageFolder's `samples`."""

    def _entry(self, sample: int) -> tuple[str, int]:
        return self._pack.key(sample), int(self._pack.index["label"][sample])
