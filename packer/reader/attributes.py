"""What attributes of data sets, streams and samplers do when they are assigned."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from packer.attributes import ReadOnly, read_only
from packer.errors import UsageError
from packer.pack.opened import Pack
from packer.reader.order.schedule import Schedule
from packer.reader.sharedmem import SharedArray
from packer.reader.views import Keys, Samples, Targets


def _order(name: str) -> Callable[[Any], Any]:
    return lambda owner: getattr(owner.schedule.options, name)


class OrderAttributes:
    """The arguments that decide the order of an epoch, as attributes of who has a schedule."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """Which mini-batches of an epoch are this rank's."""

    batch_size: ReadOnly[int] = ReadOnly(_order("batch_size"))
    shuffle: ReadOnly[str] = ReadOnly(_order("shuffle"))
    window: ReadOnly[int] = ReadOnly(_order("window"))
    seed: ReadOnly[int] = ReadOnly(_order("seed"))
    tail: ReadOnly[str] = ReadOnly(_order("tail"))
    rank: ReadOnly[int] = ReadOnly(_order("rank"))
    world_size: ReadOnly[int] = ReadOnly(_order("world_size"))


class Assignments:
    """Counts a data set's assignments for a stream over it, in memory that the stream's worker
    processes see: workers that were started before an assignment have the old transforms.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._shared = SharedArray(1)
        self._known = 0

    def note(self) -> None:
        """There was one; in a worker it is that worker's own matter."""
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


class PackAttributes:
    """What a data set has of its pack and of its arguments, to be read."""

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
        """The label of each sample, -1 = none: a list of int that numpy and torch take, too."""
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
