"""What to write instead of an argument that a class of the reader does not have.

Users are used to torch's DataLoader and DistributedSampler and to torchvision's data sets. Each of
their arguments has another name here, belongs to another class, or is not needed.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect

#: Arguments of DataLoader for its worker processes and for what it does with finished mini-batches.
FOR_DATALOADER: tuple[str, ...] = (
    "collate_fn",
    "in_order",
    "multiprocessing_context",
    "num_workers",
    "persistent_workers",
    "pin_memory",
    "pin_memory_device",
    "prefetch_factor",
    "timeout",
    "worker_init_fn",
)
_SAMPLERS = (
    "shuffle, window and seed choose the order, PackedDataset.select takes some of the samples; "
    "DataLoader(PackedDataset(…), sampler=…) takes any sampler"
)
#: Arguments of the order, for all classes that have one.
ORDER = {
    "drop_last": "tail='drop' leaves the last, partial mini-batch out, tail='keep' keeps it",
    "generator": "seed=… seeds the order and the built-in transforms",
    "sampler": _SAMPLERS,
    "batch_sampler": _SAMPLERS,
    "num_replicas": "world_size=… is the number of ranks",
}
_NO_WORKERS = "leave it out: Loader has threads, no worker processes"
LOADER = {
    "num_workers": "threads=… is the number of decode threads; there are no worker processes",
    "prefetch_factor": "ahead=… is the number of mini-batches that are made ahead of the loop",
    "multiprocessing_context": "process='spawn' or 'fork' makes mini-batches in another process",
    "pin_memory_device": "device=… is where tensors go",
    "collate_fn": "call it in the loop; or DataLoader(BatchStream(…), batch_size=None, "
    "collate_fn=…)",
    "worker_init_fn": _NO_WORKERS,
    "timeout": _NO_WORKERS,
    "persistent_workers": "leave it out: the process of process=… stays between loops",
    "in_order": "leave it out: mini-batches come in order",
}
#: Arguments of torchvision's data sets.
TORCHVISION = {
    "loader": "decode='pil', 'numpy' or 'bytes' says what pictures come as",
    "is_valid_file": "`packer convert` chooses the files, select(…) takes some of the samples",
    "allow_empty": "leave it out: a pack may have empty classes",
    "train": "split='train' or split='val' names the split",
    "download": "`packer fetch` downloads, `packer convert` makes the pack",
}
#: Those of packer's classes in whose signatures an argument is looked up, in this order.
CLASSES = ("PackedDataset", "BatchStream", "Loader", "WindowSampler", "MixedStream")


def what_to_write(owner: str, name: str) -> str:
    """What to write instead of an argument, in one line; "" if there is nothing to say.

    Args:
        owner: Name of the class that does not have the argument.
        name: Name of the argument.
    """
    if owner == "PackedDataset":
        return TORCHVISION.get(name) or _in_dataloader(owner, name) or _of_others(owner, name)
    if owner == "Loader" and name in LOADER:
        return LOADER[name]
    if name in ORDER:
        each = "as an argument of each BatchStream: " if owner == "MixedStream" else ""
        return each + ORDER[name]
    return _in_dataloader(owner, name) or _of_others(owner, name)


def _in_dataloader(owner: str, name: str) -> str:
    calls = {
        "PackedDataset": "DataLoader(dataset, {}=…)",
        "BatchStream": "DataLoader(stream, batch_size=None, {}=…)",
        "MixedStream": "DataLoader(stream, batch_size=None, {}=…)",
        "WindowSampler": "DataLoader(dataset, batch_sampler=sampler, {}=…)",
    }
    names = FOR_DATALOADER
    if owner == "PackedDataset":
        names += ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator")
    return f"{calls[owner].format(name)} takes it" if name in names and owner in calls else ""


def _of_others(owner: str, name: str) -> str:
    for other in CLASSES:
        # PackedDataset works without torch, the others do not.
        with contextlib.suppress(ModuleNotFoundError):
            kind = getattr(importlib.import_module("packer.reader"), other)
            if other != owner and name in inspect.signature(kind).parameters:
                each = ", for each stream" if owner == "MixedStream" else ""
                return f"{other}(…, {name}=…) takes it{each}"
    return f"as an argument of BatchStream: {ORDER[name]}" if name in ORDER else ""
