"""BatchStream's order for a DataLoader over the map-style data set."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from packer.attributes import ReadOnly, read_only
from packer.errors import UsageError
from packer.reader import ranks
from packer.reader.attributes import OrderAttributes
from packer.reader.dataset import PackedDataset
from packer.reader.given import require_dataset
from packer.reader.order import OrderOptions, Schedule
from packer.reader.pack import Pack
from packer.reader.state import Place, Sequence, read_state, write_state


class WindowSampler(OrderAttributes):
    """A batch sampler: `DataLoader(dataset, batch_sampler=WindowSampler(dataset, 128))`.

    Mini-batches hold samples of few on-disk batches near one another, so caches and read-ahead
    work. Equal arguments give the same mini-batches as `BatchStream`, rank by rank.

    Args:
        dataset: Whose samples.
        batch_size: Samples in a mini-batch of one rank.
        shuffle: See `packer.reader.order.OrderOptions`, as for the others.
        window: On-disk batches that are mixed at a time.
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
        dataset = require_dataset(dataset, "WindowSampler")
        rank, world_size = ranks.resolve(rank, world_size)
        options = OrderOptions(batch_size, shuffle, window, seed, tail, rank, world_size)
        self._dataset = dataset
        self.schedule: Schedule = make_schedule(dataset.pack, options)
        self._sequence = sequence_of(dataset.pack, self.schedule)
        self.epoch = 0
        self._resumed = Place(0, 0)  # where the next `iter` begins, if it is of that epoch
        self._begun = 0  # position where the last one began

    dataset: ReadOnly[PackedDataset] = ReadOnly(lambda self: self._dataset)

    @read_only("make another WindowSampler with tail=…")
    def drop_last(self) -> bool:
        """Whether the last, partial global mini-batch is left out."""
        return self.schedule.options.tail == "drop"

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next `iter` gives; 0 at first. If it is the one that
        `resume_from` was given, the next `iter` goes on in it.
        """
        if epoch != self._resumed.epoch:
            self._resumed = Place(epoch, 0)
        self.epoch = epoch
        self._begun = self._resumed.position

    def __len__(self) -> int:
        """Mini-batches of a whole epoch on this rank."""
        return len(self.schedule)

    def __iter__(self) -> Iterator[list[int]]:
        """Sample numbers, a mini-batch each."""
        there = self._resumed.epoch == self.epoch
        self._begun = self._resumed.position if there else 0
        self._resumed = Place(self.epoch, 0)
        return self._mini_batches(self.epoch, self._begun)

    def state_at(self, step: int) -> dict[str, Any]:
        """How far training has come, as `BatchStream.state_dict`; the two can go on from each
        other's states.

        Not called state_dict: a DataLoader asks its sampler for more than the loop has got, so the
        loop has to say how much that is, while torchdata's StatefulDataLoader would call
        state_dict() without, and does by itself what is right without it.

        Args:
            step: Mini-batches that the training loop has got since it began.

        Raises:
            UsageError: There are not so many.
        """
        most = self.schedule.steps(self._begun)
        if not 0 <= step <= most:
            raise UsageError(
                f"step {step} is none of the {most} mini-batches of this loop",
                "count those that the loop has got since it began, not since the epoch did",
            )
        position = min(self._begun + step * self.schedule.stride, self.schedule.samples)
        return write_state(self._sequence, Place(self.epoch, position))

    def resume_from(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next `iter` gives what is left of its epoch; if that is nothing,
        the next epoch.

        Raises:
            UsageError: No such state, or of another pack, seed, shuffle, window or tail.
        """
        place = read_state(state, self._sequence)
        ended = self.schedule.ended(place.position)
        self._resumed = place
        self.epoch = place.epoch + ended
        self._begun = 0 if ended else place.position

    def _mini_batches(self, epoch: int, start: int) -> Iterator[list[int]]:
        order = self.schedule.order(epoch)
        for step in range(self.schedule.steps(start)):
            yield self.schedule.mini_batch(order, step, start).tolist()


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


def sequence_of(pack: Pack, schedule: Schedule) -> Sequence:
    """What a state of this pack and schedule belongs to."""
    options = schedule.options
    return Sequence(
        pack=pack.identity,
        samples=schedule.samples,
        seed=options.seed,
        shuffle=options.shuffle,
        window=options.window,
        tail=str(options.tail),
    )
