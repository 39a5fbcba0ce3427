"""What attributes of data sets, streams and samplers do when they are assigned."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from packer.attributes import ReadOnly
from packer.errors import UsageError
from packer.reader.order import Schedule
from packer.reader.sharedmem import SharedArray


def _order(name: str) -> Callable[[Any], Any]:
    return lambda owner: getattr(owner.schedule.options, name)


class OrderAttributes:
    """The arguments that decide the order of an epoch, as attributes of who has a schedule."""

    schedule: Schedule

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
