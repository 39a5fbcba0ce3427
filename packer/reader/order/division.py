"""Whether accelerate divides mini-batches among the processes.

Mini-batches that accelerate divides must not be divided by rank before, or each process would get a
part of a part. accelerate's own state has the number of processes, but not which loaders went
through `prepare()`. Those that did call the data set or the sampler from accelerate's code: its
frames are on the stack, in the training process and in workers that were forked there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch

from packer.errors import UsageError

_MODULE = "accelerate.data_loader"
#: Class of loaders with which process 0 reads, and sends the other processes their parts.
_DISPATCHER = "DataLoaderDispatcher"
#: Classes with which each process reads everything and keeps its part. If several are on the stack,
#: the last one called divides.
_SHARDS = ("BatchSamplerShard", "IterableDatasetShard", "DataLoaderShard")
_LOADERS = (_DISPATCHER, "DataLoaderShard")
_NOT_PREPARED = (
    "leave the loader out of prepare(): it divides its mini-batches among the processes by itself, "
    "and `.to(accelerator.device)` moves them"
)


class Division(NamedTuple):
    """How accelerate divides.

    Attributes:
        mini_batches: Number of mini-batches that one step of the training loop takes on all
            processes together.
        dispatched: Whether process 0 sends the other processes their parts.
        reads: Whether this process reads at all.
        epoch: Epoch of accelerate's present loop, by its own count; None outside of a loop.
    """

    mini_batches: int
    dispatched: bool
    reads: bool
    epoch: int | None


def find_division() -> Division | None:
    """Return how accelerate divides the caller's mini-batches; None if accelerate does not call.

    Raises:
        UsageError: accelerate cannot divide them, and would fail with a TypeError.
    """
    if _MODULE not in sys.modules:
        return None
    callers = list(_callers())
    if not callers:
        return None
    loaders = [one for kind, name, one in callers if kind in _LOADERS and name == "__iter__"]
    epoch = getattr(loaders[0], "iteration", 0) if loaders else None
    kind, _, divider = callers[0]
    if kind == _DISPATCHER:
        return _dispatched(divider, epoch)
    processes = getattr(divider, "num_processes", 1)
    taken = 1 if getattr(divider, "split_batches", False) else processes
    if kind == "IterableDatasetShard":
        if divider.batch_size is None:
            raise UsageError(
                "accelerate with dispatch_batches=False cannot divide a DataLoader with "
                "batch_size=None",
                f"leave out dispatch_batches=False; or {_NOT_PREPARED}",
            )
        taken *= divider.batch_size
    return Division(taken, dispatched=False, reads=True, epoch=epoch)


def sendable(mini_batch: Any, names: tuple[str, ...]) -> Any:
    """Return a mini-batch in the form that process 0 can send: tensors only, contiguous in the
    order of their dimensions, as the receiving processes expect.

    Args:
        mini_batch: A named tuple, or a dict.
        names: Names of its fields.

    Raises:
        UsageError: A field is not a tensor.
    """
    columns = mini_batch if isinstance(mini_batch, Mapping) else mini_batch._asdict()
    for name in names:
        if not isinstance(columns[name], torch.Tensor):
            raise UsageError(
                f"accelerate cannot send the field {name!r} to the other processes: it is not a "
                "tensor",
                f"leave it out of fields; or {_NOT_PREPARED}",
            )
    straight = {name: columns[name].contiguous() for name in names}
    return straight if isinstance(mini_batch, Mapping) else type(mini_batch)(**straight)


def _dispatched(divider: Any, epoch: int | None) -> Division:
    state = getattr(divider, "state", None)
    # Processes of one tensor-parallel group get the same mini-batch.
    whole = getattr(divider, "split_batches", False) or getattr(divider, "submesh_tp", None)
    taken = 1 if whole else getattr(state, "num_processes", 1)
    reads = getattr(state, "process_index", 0) == 0
    return Division(taken, dispatched=True, reads=reads, epoch=epoch)


def _callers() -> Iterator[tuple[str, str, Any]]:
    """Yield class, method and object of accelerate's dividing calls on the stack, last first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _MODULE:
            caller = frame.f_locals.get("self")
            # Not `__class__`, which accelerate's loaders replace.
            kind = type(caller).__name__
            if kind == _DISPATCHER or kind in _SHARDS:
                yield kind, frame.f_code.co_name, caller
        frame = frame.f_back
