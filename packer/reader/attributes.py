"""Attributes of data sets, streams and samplers, and what an assignment does."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from packer.arguments import shown
from packer.attributes import ReadOnly, read_only
from packer.errors import UsageError
from packer.pack.opened import Pack
from packer.reader.images.decoding import Decoder, Transform, kept
from packer.reader.order.schedule import Schedule
from packer.reader.process import ReaderProcess
from packer.reader.sharedmem import SharedArray
from packer.reader.views import Keys, Samples, Targets


def _order(name: str) -> Callable[[Any], Any]:
    return lambda owner: getattr(owner.schedule.options, name)


class OrderAttributes:
    """Attributes of classes that have a schedule: the arguments that decide an epoch's order."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """The mini-batches of an epoch on this rank."""

    batch_size: ReadOnly[int] = ReadOnly(_order("batch_size"))
    shuffle: ReadOnly[str] = ReadOnly(_order("shuffle"))
    window: ReadOnly[int] = ReadOnly(_order("window"))
    seed: ReadOnly[int] = ReadOnly(_order("seed"))
    tail: ReadOnly[str] = ReadOnly(_order("tail"))
    rank: ReadOnly[int] = ReadOnly(_order("rank"))
    world_size: ReadOnly[int] = ReadOnly(_order("world_size"))


class Assignments:
    """Counts a data set's assignments in memory that is shared with a stream's worker processes:
    workers that were started before an assignment have the old transforms.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._shared = SharedArray(1)
        self._known = 0

    def note(self) -> None:
        """Count an assignment. In a worker it concerns that worker alone, so it is not counted."""
        if self._pid == os.getpid():
            self._known += 1
            self._shared.array[0] = self._known

    def check(self) -> None:
        """Refuse to go on with old transforms.

        Raises:
            UsageError: There was an assignment since this process got its copy of the data set.
        """
        if int(self._shared.array[0]) != self._known:
            raise UsageError(
                "a transform was assigned after this DataLoader started its workers, which keep "
                "the old one",
                "make a new DataLoader, or leave out persistent_workers",
            )


def checked_target(
    target_transform: Callable[[int], Any] | None,
) -> Callable[[int], Any] | None:
    """Return the target_transform if it can be called.

    Raises:
        UsageError: It is no callable.
    """
    if target_transform is None or callable(target_transform):
        return target_transform
    raise UsageError(f"invalid target_transform {shown(target_transform)}", "a callable")


class TransformAttributes:
    """`transform` and `target_transform`, which take effect when they are assigned."""

    pack: Pack
    decoder: Decoder
    _process: ReaderProcess
    _transform: Callable[..., Any] | tuple[Callable[..., Any], ...] | None
    _target_transform: Callable[[int], Any] | None
    #: Counters of the streams over this data set; None: there are none.
    _streams: weakref.WeakSet[Assignments] | None

    @property
    def transform(self) -> Callable[..., Any] | tuple[Callable[..., Any], ...] | None:
        """What is done to pictures; of several callables, a tuple.

        Raises:
            UsageError: On assignment: it is invalid, and the old transforms stay.
        """
        return self._transform

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        new = kept(transform)
        self.decoder = Decoder(self.pack, self.decoder.decode, new, self.decoder.quality)
        self._transform = new
        self._note_assignment(*self.decoder.others)

    @property
    def target_transform(self) -> Callable[[int], Any] | None:
        """What is done to labels."""
        return self._target_transform

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[int], Any] | None) -> None:
        self._target_transform = checked_target(target_transform)
        self._note_assignment(target_transform)

    def count_assignments(self) -> Assignments:
        """Count assignments from now on, for a stream over this data set."""
        assignments = Assignments()
        if self._streams is None:
            self._streams = weakref.WeakSet()
        self._streams.add(assignments)
        return assignments

    def alike(self, other: TransformAttributes | None) -> bool:
        """Whether a copy of this data set still has the same transforms."""
        return (
            other is not None
            and self.decoder is other.decoder
            and self._target_transform is other._target_transform
        )

    def _note_assignment(self, *transforms: object) -> None:
        self._process.note(*transforms)
        for assignments in self._streams or ():
            assignments.note()


class PackAttributes:
    """Attributes of a data set that its pack and its arguments give; all are read-only."""

    pack: Pack
    _classes: list[str]
    _class_to_idx: dict[str, int]

    @read_only()
    def root(self) -> str:
        """The pack's folder."""
        return str(self.pack.root)

    @read_only()
    def split(self) -> str:
        """Name of the split."""
        return self.pack.split

    decode: ReadOnly[str] = ReadOnly(lambda self: self.decoder.decode)
    decode_quality: ReadOnly[str] = ReadOnly(lambda self: self.decoder.quality)
    verify: ReadOnly[str] = ReadOnly(lambda self: self.payloads.verify)
    on_error: ReadOnly[str] = ReadOnly(lambda self: self.skips.on_error)
    stage: ReadOnly[Any] = ReadOnly(lambda self: self._copied[0])
    preload: ReadOnly[str | None] = ReadOnly(lambda self: self._copied[1])

    @read_only("select(classes=…) takes some of them, target_transform changes labels")
    def classes(self) -> list[str]:
        """Names of the classes."""
        return self._classes

    @read_only("select(classes=…) takes some of them, target_transform changes labels")
    def class_to_idx(self) -> dict[str, int]:
        """Label by class name."""
        return self._class_to_idx

    @read_only("select(samples=…) takes some samples, target_transform changes labels")
    def targets(self) -> Targets:
        """The label of each sample, -1 = none: a list of int that numpy and torch take as an array.

        It holds no label itself, so `dataset.targets[i]` in a loop costs nothing.
        """
        targets = Targets(self.pack.index["label"])
        self.pack.index.confirm()
        return targets

    @read_only("select(samples=…) takes some of them")
    def keys(self) -> Keys:
        """The samples' original paths, as text."""
        return Keys(self.pack)

    @read_only("select(samples=…) takes some of them")
    def samples(self) -> Samples:
        """(original path, label) of each sample."""
        return Samples(self.pack)

    @read_only("select(samples=…) takes some of them")
    def imgs(self) -> Samples:
        """The same as `samples`."""
        return Samples(self.pack)


class LoaderAttributes:
    """Attributes of a Loader: those of its data set, and its own arguments."""

    root: ReadOnly[str] = ReadOnly(lambda self: self.dataset.root)
    split: ReadOnly[str] = ReadOnly(lambda self: self.dataset.split)
    decode: ReadOnly[str] = ReadOnly(lambda self: self.dataset.decode)
    decode_quality: ReadOnly[str] = ReadOnly(lambda self: self.dataset.decode_quality)
    on_error: ReadOnly[str] = ReadOnly(lambda self: self.dataset.on_error)
    stage: ReadOnly[Any] = ReadOnly(lambda self: self.dataset.stage)
    preload: ReadOnly[str | None] = ReadOnly(lambda self: self.dataset.preload)
    threads: ReadOnly[int] = ReadOnly(lambda self: self._threads)
    ahead: ReadOnly[int] = ReadOnly(lambda self: self._ahead)
    device: ReadOnly[Any] = ReadOnly(lambda self: self._device.name)
    pin_memory: ReadOnly[bool | None] = ReadOnly(lambda self: self._pin_memory)
    memory_format: ReadOnly[Any] = ReadOnly(lambda self: self._memory_format)
    process: ReadOnly[bool | str] = ReadOnly(lambda self: self._process)

    dataset: Any

    @property
    def transform(self) -> Any:
        """The data set's; the next loop uses what is assigned."""
        return self.dataset.transform

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        self.dataset.transform = transform

    @property
    def target_transform(self) -> Callable[[int], Any] | None:
        """The data set's; the next loop uses what is assigned."""
        found: Callable[[int], Any] | None = self.dataset.target_transform
        return found

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[int], Any] | None) -> None:
        self.dataset.target_transform = target_transform
