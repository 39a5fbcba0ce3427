"""How torch sees a class that does not import it."""

from __future__ import annotations

import functools
import sys
from typing import Any


def seen_by_torch(kind: type) -> type:
    """A class that is `kind` and one of torch's data sets; `kind` itself where torch is not loaded.

    For a `__class__` property: isinstance() looks at it where the type of an object does not do.
    (torch's Dataset has no registry of virtual subclasses, as abstract base classes have.)
    """
    dataset: Any = getattr(sys.modules.get("torch.utils.data"), "Dataset", None)
    return kind if dataset is None else _both(kind, dataset)


@functools.lru_cache(
    maxsize=16
)  # classes of data sets in a program: one, and those derived from it
def _both(kind: type, dataset: type) -> type:
    return type(kind.__name__, (kind, dataset), {"__module__": kind.__module__})
