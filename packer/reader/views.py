"""Lists of a pack's samples that hold no object for each sample.

A list of a million paths takes 100 MB, and every worker process copies it page by page, because
reading a Python object writes its reference count.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from packer.pack.opened import Pack
from packer.types import Array

T = TypeVar("T")


class LazyList(Sequence[T], Generic[T]):
    """A read-only list that makes its entries when they are read."""

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
        # range handles negative indices and slices, and raises IndexError.
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


#: Number of labels that become Python objects at a time in a loop over a list of them.
_AT_ONCE = 4096


class Targets(Sequence[int], np.lib.mixins.NDArrayOperatorsMixin):
    """The samples' labels: a read-only list of int, as ImageFolder's `targets`, that numpy and
    torch take as an array of int64.

    Where lists and arrays differ: with a list, `+` appends and `==` compares as a whole, as for a
    list; with numbers and arrays, both work on each label, as for an array. Slices and sums are of
    this class again. It has the methods of arrays (`tolist`, `astype`, `max`, …).

    Args:
        labels: One-dimensional, of any integer type; not copied.
    """

    def __init__(self, labels: Array) -> None:
        self._labels = labels

    def __len__(self) -> int:
        return len(self._labels)

    @overload
    def __getitem__(self, place: int | np.integer[Any]) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> Targets: ...

    @overload
    def __getitem__(self, place: Array | list[int]) -> Array: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Targets(self._labels[place])
        found = self._labels[place]
        return int(found) if np.ndim(found) == 0 else found.astype(np.int64)

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._labels[start : start + _AT_ONCE].tolist()

    def __contains__(self, label: object) -> bool:
        return bool(np.any(self._labels == label))

    def count(self, label: Any) -> int:
        return int(np.count_nonzero(self._labels == label))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, list | tuple | Targets):
            return _joined(self, other)
        return super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return _joined(other, self) if isinstance(other, list) else super().__radd__(other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | np.integer):
            raise TypeError(
                "a list times a number repeats it, an array times a number multiplies each entry: "
                "write targets.tolist() * n or np.asarray(targets) * n"
            )
        return super().__mul__(other)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        if isinstance(other, list | tuple | Targets):
            return len(self) == len(other) and bool(np.array_equal(self._labels, other))
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        if isinstance(other, list | tuple | Targets):
            return not self == other
        return super().__ne__(other)

    __hash__: Any = None  # equal to lists, which have none

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("labels are stored as another type, so an array of them is a copy")
        array: Array = self._labels.astype(np.int64 if dtype is None else dtype)
        array.flags.writeable = bool(copy)  # writing to it would not change the labels
        return array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(one) if isinstance(one, Targets) else one for one in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    # Without this, torch.tensor() reads a sequence number by number.
    def __dlpack__(self, **options: Any) -> Any:
        return self._labels.astype(np.int64).__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._labels.__dlpack_device__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __repr__(self) -> str:
        head = ", ".join(str(label) for label in self[:3])
        return f"[{head}{', …' if len(self) > 3 else ''}] ({len(self)} entries)"


def _joined(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Two lists joined; a plain list if one of them holds more than integers."""
    arrays = []
    for one in (first, second):
        if not isinstance(one, Targets) and not all(type(label) is int for label in one):
            return [*first, *second]
        arrays.append(np.asarray(one, np.int64))
    return Targets(np.concatenate(arrays))
