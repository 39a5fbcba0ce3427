"""A DataLoader that would put mini-batches together to batches, as if they were samples."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from torch.utils.data import ChainDataset, default_collate

from packer.errors import UsageError

#: Holds the code of torch that iterates over a stream, in the training process and in workers.
_FETCHING = "torch.utils.data._utils.fetch"
_PASSING_ON = "accelerate.data_loader"


def refuse_rebatching(stream: object) -> None:
    """Raise an error if it is a DataLoader with a batch size that iterates over a stream.

    Its default collate function would make 1×N×3×H×W of a mini-batch N×3×H×W. A collate function of
    the user's may take mini-batches apart, so it is left alone.

    Args:
        stream: Yields mini-batches; its `__iter__` is the caller, or calls the caller.

    Raises:
        UsageError: The DataLoader collates the stream's mini-batches.
    """
    fetcher = _fetcher()
    if fetcher is None or not getattr(fetcher, "auto_collation", False):
        return
    if fetcher.collate_fn is default_collate and _yields(fetcher.dataset, stream):
        kind = type(stream).__name__
        raise UsageError(
            f"{kind} yields whole mini-batches, which this DataLoader would batch once more",
            "DataLoader(stream, batch_size=None)",
        )


def _fetcher() -> Any:
    """The object of torch whose method is nearest on the stack; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _FETCHING:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _yields(dataset: Any, stream: object) -> bool:
    """Whether a data set is the stream, or passes on what the stream yields."""
    if isinstance(dataset, ChainDataset):  # what stream + stream makes
        return any(_yields(one, stream) for one in dataset.datasets)
    if type(dataset).__module__ == _PASSING_ON:
        return _yields(dataset.dataset, stream)
    return dataset is stream
