"""Reading a pack for training.

    PackedDataset    map-style: replaces torchvision's ImageFolder; needs no torch
    BatchStream      mini-batches for `DataLoader(stream, batch_size=None)`
    Loader           the fastest: the same mini-batches, read ahead and decoded in threads
    MixedStream      several streams as one: packs concatenated, or mixed with weights
    WindowSampler    BatchStream's order for `DataLoader(dataset, batch_sampler=sampler)`

Each is imported at its first use: importing this package imports no torch, PIL, cv2, lmdb or h5py.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from packer.installing import install_only

if TYPE_CHECKING:
    from packer.reader.dataset import PackedDataset
    from packer.reader.loader import Loader
    from packer.reader.mix import MixedStream
    from packer.reader.sampler import WindowSampler
    from packer.reader.stream import BatchStream

__all__ = ["BatchStream", "Loader", "MixedStream", "PackedDataset", "WindowSampler"]

_HOMES = {
    "BatchStream": "packer.reader.stream",
    "Loader": "packer.reader.loader",
    "MixedStream": "packer.reader.mix",
    "PackedDataset": "packer.reader.dataset",
    "WindowSampler": "packer.reader.sampler",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        raise ModuleNotFoundError(
            f"packer.reader.{name} needs PyTorch, which is not installed ({install_only('torch')};"
            " PackedDataset works without it)",
            name="torch",
        ) from None
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
