"""The fastest way to read a pack: threads of one process."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch

from packer.arguments import check_choice, check_integer, explain_unknown, shown
from packer.errors import UsageError
from packer.reader.attributes import LoaderAttributes
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Material, Wanted
from packer.reader.batches.skipping import OnError
from packer.reader.dataset import PackedDataset
from packer.reader.elsewhere import what_to_write
from packer.reader.given import dataset_of
from packer.reader.images.decoding import Decode, DecodeQuality, Transform
from packer.reader.images.layout import Layout
from packer.reader.loading.cores import default_threads
from packer.reader.loading.device import Device
from packer.reader.loading.pipeline import Pipeline
from packer.reader.loading.prefetch import Prefetch, Producer, Sheets
from packer.reader.loading.process.client import Remote
from packer.reader.loading.sheets import HeapSheets, PinnedSheets
from packer.reader.order.options import Shuffle, Tail
from packer.reader.order.schedule import Schedule
from packer.reader.stream import BatchStream
from packer.staging.preload import Preload

#: How another process can start; "forkserver" and "fork" not on all systems.
Process: TypeAlias = Literal["spawn", "fork", "forkserver"]
PROCESSES: tuple[Process, ...] = get_args(Process)
#: Mini-batches under way or ready while the training loop has one: one that is being read, one that
#: is being decoded, one that is ready.
AHEAD = 3


class Loader(LoaderAttributes, BatchStream):
    """The fastest way to read a pack: a BatchStream that reads ahead and decodes in threads.

    Iterate over it directly, without DataLoader and worker processes. It gives BatchStream's
    mini-batches, in the same order, with the same state.

    Each mini-batch is a named tuple in the order of `fields`: "image": a tensor N×3×H×W, uint8, or
    float32 behind `Normalize`, in the memory format of `memory_format`; a list of tensors 3×H×W if
    sizes differ; with callables behind the built-in transforms: see
    `packer.reader.images.collate`. "label": int64 N. "key" (the original paths): a list of str. A
    field of bytes: a list of bytes, None if a sample lacks it.

    Pictures of one size are decoded straight into the mini-batch. No mini-batch shares memory with
    another: memory is used again once no tensor shows it any more. Built-in transforms draw from
    (seed, epoch, sample), in any thread. Callables run in several threads at once, so they must be
    thread-safe; what they draw from shared generators comes in no fixed order.

    An error in a thread is raised where its mini-batch would have come. Leaving the loop, or
    dropping it, ends its threads.

    Transforms follow the rule of all readers (see PackedDataset): built-in transforms at the front
    of the list work on pixels; the callables behind them are called with what `decode` says, a PIL
    image by default.

    Args:
        root: The pack's folder; or a PackedDataset, which has its own split, transform,
            target_transform, decode, decode_quality, on_error, stage and preload.
        split: Name of the split; None: "train".
        batch_size: Number of samples in a mini-batch of one rank.
        transform: A callable, or a list of callables that are applied in turn.
        target_transform: A callable; it is called with the label (int, -1 = none).
        decode: What callables are called with. "pil": a PIL image of mode RGB; "numpy": an array
            H×W×3 uint8, RGB; "bytes": the coded picture as it is stored, without built-in
            transforms. None: "pil".
        decode_quality: "exact": pixels are those of decoding everything and then transforming;
            "fast": JPEGs with small deviations, and at a reduced size where built-in transforms
            shrink them to a quarter. None: "exact".
        on_error: What happens at a damaged sample. "raise": a DamageError; "skip": it is listed in
            `skipped`, and the next whole sample of its on-disk batch takes its place. None:
            "raise".
        stage: A folder on a local disk or in memory of this machine: the split is read from a copy
            there, which is made once and stays.
        preload: A copy in shared memory, for all processes of this machine. "ram": it is removed
            with the last of them; "shm": it stays in /dev/shm. None: no copy.
        threads: Number of decode threads; None: the cores that this process may use, divided by the
            ranks of its node.
        ahead: Number of mini-batches under way or ready while the loop has one.
        device: Where tensors go, as torch names it; None: they stay in main memory. To a CUDA
            device they are copied without blocking.
        pin_memory: Whether pictures come in page-locked memory, so that
            `images.to(device, non_blocking=True)` does not block; None: where CUDA is in use and
            `process` is False.
        memory_format: torch.channels_last or torch.contiguous_format: memory format of tensors
            N×3×H×W of pictures.
        process: Whether to make mini-batches in another process, which is started with the first
            loop: for training loops whose own Python is heavy. "fork", "spawn" or "forkserver" is
            how it starts; True: "spawn". "fork" works only while no other thread runs. Transforms
            must pickle then.
        shuffle: Order of the samples. "none": as packed; "batch": on-disk batches in random order,
            each as packed; "window": on-disk batches in random order, `window` of them mixed at a
            time, the samples of each shuffled; "full": all samples. True: "window"; False: "none".
        window: Number of on-disk batches that are mixed at a time; made smaller where two windows
            would exceed 512 MB.
        seed: Seed of the order and of built-in transforms. Must be equal on all ranks.
        tail: What happens to the last, partial global mini-batch. "drop": it is left out; "pad": it
            is filled up with samples from the start; "keep": it stays partial, and ranks may differ
            by one mini-batch. None: "keep" for shuffle "none", else "drop".
        rank: Rank of this process; None: torch.distributed's, else the environment's RANK, else 0.
        world_size: Number of ranks; given with `rank` or not at all.
        fields: Names of the fields to yield: "image", "label", "key" and the pack's further fields,
            each once.
        as_dict: Whether to yield dicts by field name instead of named tuples.

    Raises:
        UsageError: An argument is invalid, or a rank that is not torch.distributed's.
        SourceError: There is no pack, or an unfinished one.
        DamageError: The pack does not hold what its manifest says.
        OutputError: There is no room for a copy; the message has the numbers.
    """

    @explain_unknown(what_to_write)
    def __init__(
        self,
        root: str | os.PathLike[str] | PackedDataset,
        split: str | None = None,
        *,
        batch_size: int,
        transform: Transform | None = None,
        target_transform: Callable[[int], Any] | None = None,
        decode: Decode | None = None,
        decode_quality: DecodeQuality | None = None,
        on_error: OnError | None = None,
        stage: str | os.PathLike[str] | None = None,
        preload: Preload | None = None,
        threads: int | None = None,
        ahead: int = AHEAD,
        device: str | torch.device | None = None,
        pin_memory: bool | None = None,
        memory_format: torch.memory_format = torch.channels_last,
        process: Process | bool = False,
        shuffle: Shuffle | bool = "window",
        window: int = 16,
        seed: int = 0,
        tail: Tail | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        fields: Sequence[str] = ("image", "label"),
        as_dict: bool = False,
    ) -> None:
        given: dict[str, Any] = {
            "split": split,
            "transform": transform,
            "target_transform": target_transform,
            "decode": decode,
            "decode_quality": decode_quality,
            "on_error": on_error,
            "stage": stage,
            "preload": preload,
        }
        super().__init__(
            dataset_of(root, {name: one for name, one in given.items() if one is not None}),
            batch_size,
            shuffle=shuffle,
            window=window,
            seed=seed,
            tail=tail,
            rank=rank,
            world_size=world_size,
            fields=fields,
            as_dict=as_dict,
        )
        self._threads = default_threads() if threads is None else threads
        self._ahead = ahead
        self._memory_format = memory_format
        self._pin_memory = pin_memory
        self._process = process
        self._device = Device(device)
        self._sheets: tuple[tuple[Layout | None, bool], Sheets | None] | None = None
        self._remote: Remote | None = None
        self._given: PackedDataset | None = None  # the data set of the remote process
        self._check()

    @property
    def batch_sampler(self) -> LoaderSampler:
        """Where Lightning and DeepSpeed look for `sampler.set_epoch` and `batch_size`."""
        return LoaderSampler(self, self.batch_size)

    def close(self) -> None:
        """End the process of `process=…`, if there is one; the next loop starts it again. Dropping
        the loader and its loops does the same.
        """
        if self._remote is not None:
            self._remote.stop()

    def mini_batches(self, places: Iterable[tuple[int, int]]) -> Iterator[Any]:
        """Return an iterator over the mini-batches at some places, (epoch, step) each, in the order
        given. Threads begin to make the first ones at once. Fast if the steps of an epoch ascend.
        Raises as `iter`.
        """
        return self._mini_batches(places)

    def _made(
        self, wanted: Iterable[Wanted], schedule: Schedule, workers: int
    ) -> Iterator[dict[str, Any]]:
        """Make the columns of some mini-batches ahead of the loop."""
        self._assignments.check()
        # A copy: what is assigned to the data set while threads work is for the next loop.
        dataset = copy.copy(self.dataset)
        planes = self._memory_format == torch.contiguous_format
        material = Material(dataset, schedule, self._contents.of(dataset), workers, planes)
        return self._prefetch(dataset, material, wanted)

    def _prefetch(
        self, dataset: PackedDataset, material: Material, wanted: Iterable[Wanted]
    ) -> Prefetch:
        if self._process:
            remote = self._other_process(dataset, material)
            producer: Producer = remote.begin()
            return Prefetch(producer, remote.sheets, wanted, self._ahead, self._device)
        producer = Pipeline(Maker(material), self._threads)
        return Prefetch(producer, self._memory(material), wanted, self._ahead, self._device)

    def _other_process(self, dataset: PackedDataset, material: Material) -> Remote:
        remote = self._remote
        # One that was started before a process group came up has another rank's schedule, and one
        # that was started before an assignment has other transforms.
        usable = remote is not None and remote.usable and remote.schedule is material.schedule
        if remote is None or not usable or not dataset.alike(self._given):
            method = self._process if isinstance(self._process, str) else "spawn"
            remote = Remote(material, self._threads, self._ahead + 2, method)
            self._remote, self._given = remote, dataset
        return remote

    def _memory(self, material: Material) -> Sheets | None:
        layout, pinned = material.layout(), self._pins()
        if self._sheets is None or self._sheets[0] != (layout, pinned):
            sheets = None if layout is None else _sheets(layout, pinned, self._ahead)
            self._sheets = (layout, pinned), sheets
        return self._sheets[1]

    def _pins(self) -> bool:
        if self._pin_memory is not None:
            return self._pin_memory
        # Allocating page-locked memory initialises CUDA, which costs a process hundreds of MB, so
        # it is done only where CUDA is in use.
        in_use: Any = torch.cuda.is_initialized  # torch has no types here
        return self._device.cuda or bool(in_use())

    def _check(self) -> None:
        for name in ("threads", "ahead"):
            check_integer(name, getattr(self, name), 1)
        if not isinstance(self._process, bool):
            check_choice("process", self._process, PROCESSES)
        if self._memory_format not in (torch.channels_last, torch.contiguous_format):
            raise UsageError(
                f"invalid memory_format {shown(self._memory_format)}",
                "torch.channels_last or torch.contiguous_format",
            )
        if self._process and self._pin_memory:
            raise UsageError(
                "memory that another process writes to cannot be pinned",
                "leave out pin_memory, or process",
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sheets": None, "_remote": None, "_given": None}


@dataclass(frozen=True)
class LoaderSampler:
    """The sampler of a loader, for frameworks. (A loader with a `sampler` attribute of its own is a
    DataLoader to Lightning, which then replaces the sampler.)

    Attributes:
        sampler: The loader, which has `set_epoch`.
        batch_size: Number of samples in a mini-batch of one rank.
    """

    sampler: Loader
    batch_size: int


def _sheets(layout: Layout, pinned: bool, ahead: int) -> Sheets:
    # The loop holds one sheet while it takes the next.
    return PinnedSheets(layout) if pinned else HeapSheets(layout, ahead + 2)
