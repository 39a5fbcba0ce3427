"""A process that reads a data set: its rank, and what is set up in it once."""

from __future__ import annotations

import os
from typing import Any

from packer.imaging.opencv import keep_to_one_thread
from packer.reader.images import seeding
from packer.reader.order import ranks


class ReaderProcess:
    """Sets up each process that reads one data set: random streams, and threads of workers."""

    def __init__(self) -> None:
        self._rank = 0  # of the process that pickled this
        self._entered = (0, 0)  # the process that is set up, and its rank
        self._assigned: tuple[object, ...] = ()  # transforms that came after that

    def enter(self, transforms: tuple[object, ...], rank: int | None = None) -> int:
        """Set up this process, unless it is.

        Args:
            transforms: Those of the data set; generators that they hold are seeded.
            rank: Rank of this process, if known; None: as `packer.reader.order.ranks` finds it.

        Returns:
            The rank.
        """
        if rank is None:
            rank = self._find_rank()
        # A process that has read before its process group came up had another rank.
        if self._entered != (os.getpid(), rank):
            self._entered = (os.getpid(), rank)
            self._assigned = ()
            seeding.separate(transforms, rank)
            if ranks.worker() is not None:
                _begin_worker()
        elif self._assigned:
            assigned, self._assigned = self._assigned, ()
            seeding.separate_held(assigned, rank)
        return rank

    def note(self, *transforms: object) -> None:
        """Remember transforms that were assigned: the next `enter` seeds their generators."""
        self._assigned += transforms

    def __getstate__(self) -> dict[str, Any]:
        return {"_rank": self._find_rank(), "_entered": (0, 0), "_assigned": ()}

    def _find_rank(self) -> int:
        # A spawned DataLoader worker has no process group, so it uses the rank that its parent
        # pickled. A spawned rank, whose parent had none, asks torch.distributed.
        return ranks.resolve(None, None)[0] or self._rank


def _begin_worker() -> None:
    """Set up a DataLoader worker, where torch is there."""
    from packer.reader.batches.delivery import deliver_errors

    keep_to_one_thread()
    deliver_errors()
