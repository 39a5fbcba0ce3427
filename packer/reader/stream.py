"""Mini-batches ready for training, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from packer.attributes import ReadOnly, read_only
from packer.reader.attributes import OrderAttributes
from packer.reader.batches.fields import Fields
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Material, Wanted
from packer.reader.batches.minibatch import MiniBatches
from packer.reader.batches.skipping import SkippedSample
from packer.reader.dataset import PackedDataset
from packer.reader.given import require_dataset
from packer.reader.order import ranks
from packer.reader.order.course import Begun, Course
from packer.reader.order.division import sendable
from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule
from packer.reader.order.walk import Walk


class BatchStream(OrderAttributes, IterableDataset[Any]):
    """Mini-batches of a pack: for `DataLoader(stream, batch_size=None, num_workers=N)`, or to
    iterate over directly.

    Each mini-batch is a named tuple in the order of `fields`: pictures of one size as one uint8
    tensor N×3×H×W in channels-last memory, others as a list of tensors 3×H×W (decode="bytes": a
    list of bytes; with a transform: see `packer.reader.images.collate`); "label" as int64 N; "key"
    (the original paths) as a list of str; a field of bytes as a list of bytes, None where a sample
    lacks it.

    Workers take the mini-batches in turn, so a DataLoader yields them in the same order for any
    number of workers. Built-in random transforms draw from (seed, epoch, sample): the same crops,
    too, for any number of workers and ranks.

    The first loop reads epoch 0, and each new loop the next epoch, unless `set_epoch` or
    `load_state_dict` chose another: in this process, in workers however they are started, and
    equally on all ranks. A loop begins with its first mini-batch (in a DataLoader with workers,
    when these are started), and counts although it may be left early.

    Ranks that are not given are looked up when a loop begins: a process group may come up after
    the stream was made. Where accelerate's `prepare` has wrapped the DataLoader, the stream gives
    all mini-batches, as accelerate divides them.

    Args:
        dataset: Whose samples, with its transforms and `decode`.
        batch_size: Samples in a mini-batch of one rank; need not match the on-disk batches.
        shuffle: "none", "batch", "window" or "full": see `OrderOptions` in
            `packer.reader.order.options`.
        window: On-disk batches that are mixed at a time; held in memory, 512 MB at most.
        seed: Of the order and of built-in transforms. Must be equal on all ranks.
        tail: "drop", "pad" or "keep"; None: keep for shuffle "none", else drop.
        rank: Of this process; None: torch.distributed's, else the environment's, else 0.
        world_size: Number of ranks; given with `rank` or not at all. With 1 where torch.distributed
            has more processes, each of them reads everything, and a warning says so.
        fields: What to yield.
        as_dict: Yield dicts by field name instead of tuples.

    Raises:
        UsageError: An invalid argument, or a rank that is not torch.distributed's.
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
        fields: Sequence[str] = ("image", "label"),
        as_dict: bool = False,
    ) -> None:
        dataset = require_dataset(dataset, type(self).__name__)
        options = OrderOptions(batch_size, shuffle, window, seed, tail)
        self._dataset = dataset
        self._assignments = dataset.count_assignments()
        self.course = Course(dataset.pack, options, rank, world_size)
        self._contents = Fields(dataset, fields, seed, as_dict)

    @property
    def schedule(self) -> Schedule:
        """Which mini-batches of an epoch are this rank's.

        Raises:
            UsageError: The rank that was given is not torch.distributed's.
        """
        return self.course.schedule()

    dataset: ReadOnly[PackedDataset] = ReadOnly(lambda self: self._dataset)
    fields: ReadOnly[tuple[str, ...]] = ReadOnly(lambda self: self._contents.names)
    as_dict: ReadOnly[bool] = ReadOnly(lambda self: self._contents.as_dict)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next loop reads, in this process and its workers; the loop
        after it reads `epoch + 1`. If it is the one that `load_state_dict` was given, the next loop
        goes on in it.
        """
        self.course.set_epoch(epoch)

    @property
    def epoch(self) -> int:
        """The epoch that the next loop reads. Once a loop has begun, it is the one after that
        loop's.
        """
        return self.course.next().epoch

    @read_only("it lists what was found")
    def skipped(self) -> list[SkippedSample]:
        """Damaged samples that were left out so far, by all workers (on_error="skip")."""
        return self.dataset.skipped

    def __len__(self) -> int:
        """Mini-batches of a whole epoch on this rank, over all workers: also after
        `load_state_dict`, as learning rate schedules and progress bars count on it.
        """
        return len(self.schedule)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """How far training has come: a small dict, fit for JSON, equal on all ranks (with
        tail="keep", rank 0 may be the only one that got the last mini-batch: take its).

        Works by itself where the stream is iterated over directly, or inside of torchdata's
        StatefulDataLoader. In another DataLoader with workers, which read ahead, and in one that
        accelerate has prepared, the training loop has to say how much it got.

        Once a direct loop has ended, the state is the beginning of the next epoch, which is what
        the next loop reads. After a loop that was left, it is the place in that loop, although a
        new loop in this process reads the next epoch.

        Args:
            step: Mini-batches that the loop has got since it began: after an epoch was gone on
                with, not those before.

        Raises:
            UsageError: Workers have read, and `step` is not given; or there are not so many.
        """
        return self.course.state() if step is None else self.course.state_at(step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next loop gives what is left of its epoch, or if that is nothing,
        the next epoch; the loop after it gives the epoch after that.

        Call it before the loader's workers start. Number of ranks, workers and mini-batch size may
        differ from what they were.

        Args:
            state: What `state_dict` returned, of this or another rank; or that of a
                StatefulDataLoader over a stream, to go on from it with another number of workers.

        Raises:
            UsageError: No such state, or of another pack, seed, shuffle, window or tail.
        """
        self.course.load(state)

    def __iter__(self) -> Iterator[Any]:
        """This process's share of the mini-batches. Outside of workers the loop begins with the
        first of them.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
            UsageError: The rank that was given is not torch.distributed's.
        """
        if ranks.worker() is None:
            return self._begun_at_first_use()
        # Here it has begun: the training process has asked for an iterator, and makes one once.
        return self._loop(self.course.begin())

    def _begun_at_first_use(self) -> Iterator[Any]:
        yield from self._loop(self.course.begin())

    def _loop(self, begun: Begun | None) -> Iterator[Any]:
        if begun is None:
            return
        # What accelerate divides is the order of rank 0 of 1, whatever the rank of this process.
        rank = None if begun.division is not None else begun.schedule.options.rank
        self.dataset.enter_process(rank)
        mini_batches = self._walk_through(begun.walk, begun.schedule)
        if begun.division is not None and begun.division.dispatched:
            mini_batches = (sendable(mini_batch, self.fields) for mini_batch in mini_batches)
        yield from mini_batches

    def _walk_through(self, walk: Walk, schedule: Schedule) -> Iterator[Any]:
        steps = range(walk.step, schedule.steps(walk.start), walk.workers)
        wanted = (Wanted(walk.epoch, walk.start, step) for step in steps)
        made = self._made(wanted, schedule, walk.workers)
        return MiniBatches(made, self._contents.mini_batch, walk)

    def mini_batches(self, places: Iterable[tuple[int, int]]) -> Iterator[Any]:
        """Yield the mini-batches at some places, (epoch, step) each, in the order given. Fast if
        the steps of an epoch ascend: what was read for one is used again for the next. Raises as
        `iter`.
        """
        # Nothing is read before the first one is asked for.
        yield from self._mini_batches(places)

    def _mini_batches(self, places: Iterable[tuple[int, int]]) -> MiniBatches:
        schedule, _ = self.course.reading()
        self.dataset.enter_process(schedule.options.rank)
        _, workers = ranks.worker() or (0, 1)
        wanted = (Wanted(epoch, 0, step) for epoch, step in places)
        return MiniBatches(self._made(wanted, schedule, workers), self._contents.mini_batch)

    def _made(
        self, wanted: Iterable[Wanted], schedule: Schedule, workers: int
    ) -> Iterator[dict[str, Any]]:
        """Make the columns of some mini-batches, each when it is asked for."""
        self._assignments.check()
        maker = Maker(Material(self.dataset, schedule, self._contents, workers))
        return (maker.make(one) for one in wanted)
