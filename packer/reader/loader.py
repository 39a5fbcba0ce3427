"""The fastest way to read a pack: threads of one process."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from packer.attributes import ReadOnly
from packer.errors import UsageError
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Material, Wanted
from packer.reader.dataset import PackedDataset
from packer.reader.given import require_dataset
from packer.reader.images.layout import Layout
from packer.reader.loading.cores import default_threads
from packer.reader.loading.device import Device
from packer.reader.loading.pipeline import Pipeline
from packer.reader.loading.prefetch import Prefetch, Producer, Sheets
from packer.reader.loading.process.client import Remote
from packer.reader.loading.sheets import HeapSheets, PinnedSheets
from packer.reader.order.schedule import Schedule
from packer.reader.stream import BatchStream

#: Mini-batches under way or ready while the training loop has one: one that is being read, one that
#: is being decoded, one that is ready.
AHEAD = 3


class Loader(BatchStream):
    """A BatchStream that reads ahead and decodes in threads, to iterate over directly: without
    DataLoader and worker processes. Same mini-batches, same order, same state.

    Pictures of one size are decoded straight into the mini-batch. Nothing is handed out twice:
    memory is used again once no tensor shows it any more. Built-in transforms draw from (seed,
    epoch, sample), in whatever thread. Callables of your own run in several threads at once, so
    they must be thread-safe; what they draw from shared generators comes in no fixed order.

    An error in a thread is raised where its mini-batch would have come. Leaving the loop, or
    dropping it, ends its threads.

    Args:
        root: The pack's folder; or a PackedDataset, which has its own split, transforms and so on.
        split: Name of the split.
        batch_size: Samples in a mini-batch of one rank.
        transform: As PackedDataset's; gets H×W×3 uint8 arrays.
        target_transform: As PackedDataset's; so are decode_quality, on_error, stage and preload.
        threads: That decode; None: as many as there are cores for this process, its node's ranks
            sharing them.
        ahead: Mini-batches under way or ready while the loop has one.
        device: Where tensors go, as torch names it; None: they stay in main memory. To a CUDA
            device they are copied without blocking.
        pin_memory: Page-locked memory for pictures; None: where CUDA is in use, but not with
            `process`. Then `images.to(device, non_blocking=True)` does not block either.
        memory_format: Of tensors N×3×H×W of pictures: torch.channels_last, or
            torch.contiguous_format.
        process: Make mini-batches in a process of its own, started with the first loop, where the
            training loop's own Python is heavy. "fork", "spawn" or "forkserver": how it starts;
            True: "spawn"; "fork" only where no other thread runs. Transforms must pickle then.
        shuffle: As BatchStream's; so are the others.

    Raises:
        UsageError: An invalid argument.
        SourceError: No pack there, or an unfinished one.
        DamageError: The pack does not hold what its manifest says.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | PackedDataset,
        split: str | None = None,
        *,
        batch_size: int,
        transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        decode_quality: str | None = None,
        on_error: str | None = None,
        stage: str | os.PathLike[str] | None = None,
        preload: str | None = None,
        threads: int | None = None,
        ahead: int = AHEAD,
        device: str | torch.device | None = None,
        pin_memory: bool | None = None,
        memory_format: torch.memory_format = torch.channels_last,
        process: bool | str = False,
        shuffle: str = "window",
        window: int = 16,
        seed: int = 0,
        tail: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        fields: Sequence[str] = ("image", "label"),
        as_dict: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "split": split,
            "transform": transform,
            "target_transform": target_transform,
            "decode_quality": decode_quality,
            "on_error": on_error,
            "stage": stage,
            "preload": preload,
        }
        super().__init__(
            _dataset(root, {name: options[name] for name in options if options[name] is not None}),
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
        self._given: PackedDataset | None = None  # what the remote process has
        self._check()

    @property
    def batch_sampler(self) -> LoaderSampler:
        """Where Lightning and DeepSpeed look for `sampler.set_epoch` and `batch_size`."""
        return LoaderSampler(self, self.batch_size)

    root: ReadOnly[str] = ReadOnly(lambda self: self.dataset.root)
    split: ReadOnly[str] = ReadOnly(lambda self: self.dataset.split)
    decode_quality: ReadOnly[str] = ReadOnly(lambda self: self.dataset.decode_quality)
    on_error: ReadOnly[str] = ReadOnly(lambda self: self.dataset.on_error)
    stage: ReadOnly[Any] = ReadOnly(lambda self: self.dataset.stage)
    preload: ReadOnly[str | None] = ReadOnly(lambda self: self.dataset.preload)
    threads: ReadOnly[int] = ReadOnly(lambda self: self._threads)
    ahead: ReadOnly[int] = ReadOnly(lambda self: self._ahead)
    device: ReadOnly[str | torch.device | None] = ReadOnly(lambda self: self._device.name)
    pin_memory: ReadOnly[bool | None] = ReadOnly(lambda self: self._pin_memory)
    memory_format: ReadOnly[torch.memory_format] = ReadOnly(lambda self: self._memory_format)
    process: ReadOnly[bool | str] = ReadOnly(lambda self: self._process)

    @property
    def transform(self) -> Any:
        """The data set's; assigned, the next loop uses it."""
        return self.dataset.transform

    @transform.setter
    def transform(
        self, transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None
    ) -> None:
        self.dataset.transform = transform

    @property
    def target_transform(self) -> Callable[[int], Any] | None:
        """The data set's; assigned, the next loop uses it."""
        return self.dataset.target_transform

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[int], Any] | None) -> None:
        self.dataset.target_transform = target_transform

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
        # Asking for such memory sets CUDA up, which costs a process hundreds of MB: only where it
        # is in use.
        in_use: Any = torch.cuda.is_initialized  # torch has no types here
        return self._device.cuda or bool(in_use())

    def _check(self) -> None:
        for name in ("threads", "ahead"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)} is out of range", "at least 1")
        if self._memory_format not in (torch.channels_last, torch.contiguous_format):
            raise UsageError(
                f"invalid memory_format {self._memory_format}",
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
    """What frameworks ask a loader's sampler. (Lightning takes a loader with a `sampler` of its own
    for a DataLoader, whose samples it can choose anew.)

    Attributes:
        sampler: Has `set_epoch`.
        batch_size: Samples in a mini-batch of one rank.
    """

    sampler: Loader
    batch_size: int


def _sheets(layout: Layout, pinned: bool, ahead: int) -> Sheets:
    # The loop holds one while it asks for the next.
    return PinnedSheets(layout) if pinned else HeapSheets(layout, ahead + 2)


def _dataset(
    root: str | os.PathLike[str] | PackedDataset, options: dict[str, Any]
) -> PackedDataset:
    if isinstance(root, str | os.PathLike):
        return PackedDataset(root, decode="numpy", **options)
    dataset = require_dataset(root, "Loader")
    if options:
        raise UsageError(
            f"{', '.join(options)} given beside a data set, which has its own",
            "give them to PackedDataset, or give Loader the pack's folder",
        )
    return dataset
