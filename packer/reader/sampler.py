"""The order of BatchStream for a DataLoader over the map-style data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import BatchSampler, Sampler

from packer.arguments import explain_unknown
from packer.attributes import ReadOnly, read_only
from packer.errors import SamplerReplaced
from packer.reader.attributes import OrderAttributes
from packer.reader.dataset import PackedDataset
from packer.reader.elsewhere import what_to_write
from packer.reader.given import require_dataset
from packer.reader.order.course import Course
from packer.reader.order.options import OrderOptions, Shuffle, Tail, as_shuffle
from packer.reader.order.schedule import Schedule


class WindowSampler(OrderAttributes, BatchSampler):
    """BatchStream's order as a batch sampler, for DataLoader over a PackedDataset.

    `DataLoader(dataset, batch_sampler=WindowSampler(dataset, 128))`. Mini-batches hold samples of
    few on-disk batches near one another, so caches and read-ahead work. Equal arguments give the
    same mini-batches as `BatchStream`, rank by rank, in the same epochs: the first loop gives epoch
    0, and each new loop the next epoch, unless `set_epoch` or `resume_from` chose another. A loop
    counts once it has begun.

    The data set makes the pictures, by the rule of all readers (see PackedDataset): built-in
    transforms at the front of the list work on pixels; the callables behind them are called with
    what `decode` says, a PIL image by default. Here built-in random transforms draw from torch's
    generator, and DataLoader collates the samples: arrays H×W×3 become a tensor N×H×W×3.

    Ranks that are not given are looked up when a loop begins. If accelerate's `prepare` has wrapped
    the DataLoader, the sampler gives all mini-batches, as accelerate divides them.

    Args:
        dataset: The data set that the DataLoader has, too.
        batch_size: Number of samples in a mini-batch of one rank.
        shuffle: Order of the samples. "none": as packed; "batch": on-disk batches in random order,
            each as packed; "window": on-disk batches in random order, `window` of them mixed at a
            time, the samples of each shuffled; "full": all samples. True: "window"; False: "none".
        window: Number of on-disk batches that are mixed at a time; made smaller where two windows
            would exceed 512 MB.
        seed: Seed of the order. Must be equal on all ranks.
        tail: What happens to the last, partial global mini-batch. "drop": it is left out; "pad": it
            is filled up with samples from the start; "keep": it stays partial, and ranks may differ
            by one mini-batch. None: "keep" for shuffle "none", else "drop".
        rank: Rank of this process; None: torch.distributed's, else the environment's RANK, else 0.
        world_size: Number of ranks; given with `rank` or not at all.
        sampler: For frameworks, such as Lightning, that make the sampler of a DataLoader anew with
            a DistributedSampler. Its rank and number of ranks are taken, unless `rank` is given;
            its order is not.
        drop_last: For the same frameworks: True makes `tail` "drop"; False makes "drop" "keep".

    Raises:
        UsageError: An argument is invalid.
        SamplerReplaced: A framework makes the sampler anew, and all other options would be lost.
    """

    @explain_unknown(what_to_write)
    def __init__(
        self,
        dataset: PackedDataset,
        batch_size: int,
        *,
        shuffle: Shuffle | bool = "window",
        window: int = 16,
        seed: int = 0,
        tail: Tail | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        sampler: object = None,
        drop_last: bool | None = None,
    ) -> None:
        if isinstance(dataset, Sampler):
            raise SamplerReplaced(
                f"WindowSampler was made with a {type(dataset).__name__} in place of its data set, "
                "as Lightning does, which would lose its order",
                "make the DataLoader inside of the hook (train_dataloader, predict_dataloader); or "
                "give Trainer(use_distributed_sampler=False), or Fabric's "
                "setup_dataloaders(…, use_distributed_sampler=False): the sampler divides by rank "
                "itself",
            )
        self._dataset: PackedDataset = require_dataset(dataset, "WindowSampler")
        if rank is None and world_size is None:
            rank = getattr(sampler, "rank", None)
            world_size = getattr(sampler, "num_replicas", None)
        options = OrderOptions(batch_size, as_shuffle(shuffle), window, seed, tail)
        if drop_last is not None and drop_last != (options.tail == "drop"):
            tail = "drop" if drop_last else "keep"
            options = OrderOptions(batch_size, as_shuffle(shuffle), window, seed, tail)
        self._course = Course(self._dataset.pack, options, rank, world_size)

    dataset: ReadOnly[PackedDataset] = ReadOnly(lambda self: self._dataset)

    @property
    def schedule(self) -> Schedule:
        """The mini-batches of an epoch on this rank.

        Raises:
            UsageError: The rank that was given is not torch.distributed's.
        """
        return self._course.schedule()

    @read_only("it is the sampler itself")
    def sampler(self) -> WindowSampler:  # type: ignore[override]  # torch's has samples' numbers
        """The sampler itself: where Lightning, accelerate and others look for `set_epoch`."""
        return self

    @read_only("make another WindowSampler with tail=…")
    def drop_last(self) -> bool:
        """Whether the last, partial global mini-batch is left out."""
        return self.schedule.options.tail == "drop"

    @property
    def epoch(self) -> int:
        """The epoch that the next loop gives. Once a loop has begun, it is the one after that
        loop's.
        """
        return self._course.next().epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next loop gives; the loop after it gives `epoch + 1`. If it is
        the one that `resume_from` was given, the next loop goes on in it.
        """
        self._course.set_epoch(epoch)

    def __len__(self) -> int:
        """Number of mini-batches of a whole epoch on this rank."""
        return len(self.schedule)

    def __iter__(self) -> Iterator[list[int]]:
        """Lists of sample numbers, one for each mini-batch. The loop begins with the first list."""
        begun = self._course.begin()
        if begun is None:
            return
        walk, schedule, _ = begun
        order = schedule.order(walk.epoch)
        for step in range(schedule.steps(walk.start)):
            yield schedule.mini_batch(order, step, walk.start).tolist()

    def state_at(self, step: int) -> dict[str, Any]:
        """How far training has come, as `BatchStream.state_dict`; each can go on from the other's
        states.

        It is not called state_dict, because torchdata's StatefulDataLoader would call that without
        the step. A DataLoader takes more from its sampler than the loop has got, so only the loop
        has the right number. Without a state_dict, StatefulDataLoader restores samplers correctly.

        Args:
            step: Number of mini-batches that the training loop has got since it began.

        Raises:
            UsageError: The loop has fewer mini-batches.
        """
        return self._course.state_at(step)

    def resume_from(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next loop gives the rest of its epoch, or the next epoch if no
        mini-batch is left; the loop after it gives the epoch after that.

        Raises:
            UsageError: The state is invalid, or of another pack, seed, shuffle, window or tail.
        """
        self._course.resume(state)
