"""BatchStream's order for a DataLoader over the map-style data set."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from packer.reader import ranks
from packer.reader.dataset import PackedDataset
from packer.reader.order import OrderOptions, Schedule
from packer.reader.pack import Pack


class WindowSampler:
    """A batch sampler: `DataLoader(dataset, batch_sampler=WindowSampler(dataset, 128))`.

    Mini-batches hold samples of few on-disk batches near one another, so caches and read-ahead
    work. Equal arguments give the same mini-batches as `BatchStream`, rank by rank.

    Args:
        dataset: Whose samples.
        batch_size: Samples in a mini-batch of one rank.
        shuffle: See `packer.reader.order.OrderOptions`, as for the others.
        window: On-disk batches that are shuffled together.
        seed: Of the order. Must be equal on all ranks.
        tail: "drop", "pad" or "keep"; None: keep for shuffle "none", else drop.
        rank: Of this process; None: torch.distributed's, else the environment's, else 0.
        world_size: Number of ranks; given with `rank` or not at all.

    Raises:
        UsageError: An argument that cannot be.
    """

    def __init__(
        self,
        dataset: PackedDataset,
        batch_size: int,
        *,
        shuffle: str = "window",
        window: int = 16,
        seed: int = 0,
        tail: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        rank, world_size = ranks.resolve(rank, world_size)
        options = OrderOptions(batch_size, shuffle, window, seed, tail, rank, world_size)
        self.schedule: Schedule = make_schedule(dataset.pack, options)
        self.epoch = 0

    @property
    def batch_size(self) -> int:
        """Samples in a mini-batch of one rank."""
        return self.schedule.options.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether the last, partial global mini-batch is left out."""
        return self.schedule.options.tail == "drop"

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next `iter` gives; 0 at first."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Mini-batches of an epoch on this rank."""
        return len(self.schedule)

    def __iter__(self) -> Iterator[list[int]]:
        """Sample numbers, a mini-batch each."""
        order = self.schedule.order(self.epoch)
        for step in range(len(self)):
            yield order.take(*self.schedule.bounds(step)).tolist()


def make_schedule(pack: Pack, options: OrderOptions) -> Schedule:
    """A rank's schedule over a pack. Warns where it is empty though the pack is not."""
    index = pack.index
    schedule = Schedule(index["batch_count"], index["batch_bytes"], options)
    if not len(schedule) and len(pack) and options.tail == "drop":
        warnings.warn(
            f"{pack.root}: {len(pack)} samples in split {pack.split!r} are fewer than one global "
            f"mini-batch of {options.batch_size} x {options.world_size}, and tail='drop' leaves "
            "nothing; tail='pad' or a smaller batch_size would",
            stacklevel=3,
        )
    return schedule
