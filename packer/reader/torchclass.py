"""Torch's view of a data set class that does not import torch."""

from __future__ import annotations

import functools
import sys
from typing import Any


class TorchDataset:
    """Base of classes that are torch data sets where torch is loaded.

    Importing the reader does not import torch, and torch may be imported later than a data set is
    made, so torch's Dataset is no base class.
    """

    def __add__(self, other: Any) -> Any:
        """Both as one torch.utils.data.ConcatDataset, as torch's data sets add."""
        if not (hasattr(other, "__getitem__") and hasattr(other, "__len__")):
            return NotImplemented
        from torch.utils.data import ConcatDataset

        both: list[Any] = [self, other]
        return ConcatDataset(both)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """A subclass of torch's Dataset where torch is loaded, for isinstance()."""
        return seen_by_torch(type(self))

    def __reduce__(self) -> tuple[object, ...]:
        # The default would pickle `__class__`, which no module has.
        return _restored, (type(self), self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)


def _restored(kind: type[TorchDataset], state: dict[str, Any]) -> TorchDataset:
    dataset = kind.__new__(kind)
    dataset.__dict__.update(state)
    return dataset


def seen_by_torch(kind: type) -> type:
    """A class that is `kind` and one of torch's data sets; `kind` itself where torch is not loaded.

    For a `__class__` property: isinstance() looks at it if the object's type does not match.
    (torch's Dataset has no registry of virtual subclasses, unlike abstract base classes.)
    """
    dataset: Any = getattr(sys.modules.get("torch.utils.data"), "Dataset", None)
    return kind if dataset is None else _both(kind, dataset)


@functools.lru_cache(maxsize=16)  # a program has one such class, and a few derived from it
def _both(kind: type, dataset: type) -> type:
    return type(kind.__name__, (kind, dataset), {"__module__": kind.__module__})
