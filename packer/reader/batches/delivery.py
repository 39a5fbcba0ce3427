"""Errors of sending a mini-batch from a DataLoader worker to the training loop.

A worker's queue pickles mini-batches in a thread of its own, where torch copies tensors to shared
memory. If that fails (a full /dev/shm, an object that cannot be pickled), multiprocessing prints
the error and drops the mini-batch, so the loop would go on without it, or wait for it for ever. In
a worker that reads a pack, the error takes the mini-batch's place in the queue instead, and
DataLoader raises it in the loop.
"""

from __future__ import annotations

import errno
import multiprocessing.queues
import os
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from packer.errors import OutputError, PackerError, WorkerError

#: Where Linux keeps memory that processes share.
_SHARED_MEMORY = Path("/dev/shm")


def deliver_errors() -> None:
    """Make this DataLoader worker send pickling errors to the loop. Can be called twice."""
    # The queue's thread looks this name up for each object, even if it runs already.
    queues: Any = multiprocessing.queues
    queues._ForkingPickler = _Pickler


class _Pickler(ForkingPickler):
    """Pickles an error in place of a mini-batch that cannot be pickled."""

    @classmethod
    def dumps(cls, obj: Any, protocol: int | None = None) -> memoryview:
        try:
            return super().dumps(obj, protocol)
        except Exception as error:
            # DataLoader's workers send (number of the mini-batch, mini-batch).
            if not (isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], int)):
                raise
            return super().dumps((obj[0], _Failure(error)), protocol)


class _Failure(ExceptionWrapper):
    """An error that a DataLoader raises where it would have yielded a mini-batch."""

    def __init__(self, error: Exception) -> None:
        info: Any = get_worker_info()
        self._worker = info.id
        reason = _reason(error)
        reason.__cause__ = error
        where = f"in DataLoader worker process {self._worker}"
        initialise: Any = super().__init__  # torch has no types here
        initialise((type(reason), reason, reason.__traceback__), where)

    def __iter__(self) -> Iterator[Any]:
        # torchdata's StatefulDataLoader unpacks each result: mini-batch, worker, worker's state.
        return iter((self, self._worker, None))


def _reason(error: Exception) -> PackerError:
    text = " ".join(str(error).split())
    if getattr(error, "errno", None) == errno.EMFILE or f"({errno.EMFILE})" in text:
        return OutputError(
            f"a mini-batch cannot be sent to the training loop: too many open files ({text})",
            "raise `ulimit -n`, or torch.multiprocessing.set_sharing_strategy('file_system')",
        )
    if "</torch_" in text or getattr(error, "errno", None) == errno.ENOSPC:
        return OutputError(
            f"{_SHARED_MEMORY}: {_state()}: no room to send a mini-batch to the training loop "
            f"({text})",
            "docker: --shm-size=8g or --ipc=host; else fewer workers, a smaller prefetch_factor or "
            "smaller mini-batches (the sharing strategy 'file_system' uses the same memory); "
            "packer.reader.Loader needs none",
        )
    return WorkerError(
        "a mini-batch cannot be sent from its worker to the training loop: "
        f"{type(error).__name__}: {text}",
        "transforms and collate_fn must return objects that can be pickled",
    )


def _state() -> str:
    """Describe the state of shared memory, for a message."""
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except OSError as error:
        return str(error.strerror)
    if found.f_flag & os.ST_RDONLY:
        return "read-only"
    free, size = (blocks * found.f_frsize / 1e6 for blocks in (found.f_bavail, found.f_blocks))
    return f"{free:.1f} of {size:.1f} MB free"
