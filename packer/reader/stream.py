"""Mini-batches ready for training, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from packer.arguments import explain_unknown
from packer.attributes import ReadOnly, read_only
from packer.reader.attributes import OrderAttributes
from packer.reader.batches.fields import Fields
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Material, Wanted
from packer.reader.batches.minibatch import MiniBatches
from packer.reader.batches.rebatching import refuse_rebatching
from packer.reader.batches.skipping import SkippedSample
from packer.reader.dataset import PackedDataset
from packer.reader.elsewhere import what_to_write
from packer.reader.given import require_dataset
from packer.reader.order import ranks
from packer.reader.order.course import Begun, Course
from packer.reader.order.division import sendable
from packer.reader.order.options import OrderOptions, Shuffle, Tail, as_shuffle
from packer.reader.order.schedule import Schedule
from packer.reader.order.walk import Walk


class BatchStream(OrderAttributes, IterableDataset[Any]):
    """Mini-batches of a pack, for DataLoader or to iterate over directly.

    In a DataLoader, `batch_size=None` says that the stream makes the mini-batches:
    `DataLoader(stream, batch_size=None, num_workers=2)`.

    Each mini-batch is a named tuple in the order of `fields`: "image": a tensor N×3×H×W in
    channels-last memory, uint8, or float32 behind `Normalize`; a list of tensors 3×H×W if sizes
    differ; a list of bytes with decode="bytes"; with callables behind the built-in transforms: see
    `packer.reader.images.collate`. "label": int64 N. "key" (the original paths): a list of str. A
    field of bytes: a list of bytes, None if a sample lacks it.

    Transforms follow the rule of all readers (see PackedDataset): built-in transforms at the front
    of the list work on pixels; the callables behind them are called with what `decode` says, a PIL
    image by default. Both are arguments of the data set. Without callables, "pil" and "numpy" give
    the same mini-batches.

    Workers take the mini-batches in turn, so a DataLoader yields them in the same order for any
    number of workers. Built-in random transforms draw from (seed, epoch, sample): the crops, too,
    are the same for any number of workers and ranks.

    The first loop reads epoch 0, and each new loop the next epoch, unless `set_epoch` or
    `load_state_dict` chose another: in this process, in workers however they are started, and
    equally on all ranks. A loop begins with its first mini-batch (in a DataLoader with workers,
    when these are started), and counts although it may be left early.

    Ranks that are not given are looked up when a loop begins: a process group may come up after
    the stream was made. If accelerate's `prepare` has wrapped the DataLoader, the stream gives all
    mini-batches, as accelerate divides them.

    Args:
        dataset: The data set, with its transforms and `decode`.
        batch_size: Number of samples in a mini-batch of one rank; need not match the on-disk
            batches.
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
        world_size: Number of ranks; given with `rank` or not at all. With 1 where torch.distributed
            has more processes, each of them reads everything, and a warning says so.
        fields: Names of the fields to yield: "image", "label", "key" and the pack's further fields,
            each once.
        as_dict: Whether to yield dicts by field name instead of named tuples.

    Raises:
        UsageError: An argument is invalid, or a rank that is not torch.distributed's.
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
        fields: Sequence[str] = ("image", "label"),
        as_dict: bool = False,
    ) -> None:
        dataset = require_dataset(dataset, type(self).__name__)
        options = OrderOptions(batch_size, as_shuffle(shuffle), window, seed, tail)
        self._dataset = dataset
        self._assignments = dataset.count_assignments()
        self.course = Course(dataset.pack, options, rank, world_size)
        self._contents = Fields(dataset, fields, seed, as_dict)

    @property
    def schedule(self) -> Schedule:
        """The mini-batches of an epoch on this rank.

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
        """Number of mini-batches of a whole epoch on this rank, over all workers. It is the same
        after `load_state_dict`, because learning rate schedules and progress bars rely on it.
        """
        return len(self.schedule)

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """How far training has come: a small dict of JSON values, equal on all ranks. (With
        tail="keep", rank 0 may be the only one that got the last mini-batch: take its state.)

        `step` can be left out if the stream is iterated over directly, or inside of torchdata's
        StatefulDataLoader. In another DataLoader with workers, which read ahead, and in one that
        accelerate has prepared, only the training loop has the number of mini-batches it got.

        Once a direct loop has ended, the state is the beginning of the next epoch, which is what
        the next loop reads. After a loop that was left, it is the place in that loop, although a
        new loop in this process reads the next epoch.

        Args:
            step: Number of mini-batches that the loop has got since it began. In a loop that went
                on in mid-epoch, those before it do not count.

        Raises:
            UsageError: Workers have read and `step` is not given; or the loop has fewer
                mini-batches.
        """
        return self.course.state() if step is None else self.course.state_at(step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next loop gives the rest of its epoch, or the next epoch if no
        mini-batch is left; the loop after it gives the epoch after that.

        Call it before the loader's workers start. The numbers of ranks and workers and the
        mini-batch size may differ from those of the run that made the state.

        Args:
            state: What `state_dict` returned, on this or another rank; or the state of a
                StatefulDataLoader over a stream, to go on with another number of workers.

        Raises:
            UsageError: The state is invalid, or of another pack, seed, shuffle, window or tail.
        """
        self.course.load(state)

    def __iter__(self) -> Iterator[Any]:
        """This process's share of the mini-batches. Outside of workers the loop begins with the
        first of them.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
            UsageError: The rank that was given is not torch.distributed's; or a DataLoader with a
                batch size calls this.
        """
        refuse_rebatching(self)
        if ranks.worker() is None:
            return self._begun_at_first_use()
        # In a worker the loop has begun: the training process makes one iterator for each loop.
        return self._loop(self.course.begin())

    def _begun_at_first_use(self) -> Iterator[Any]:
        yield from self._loop(self.course.begin())

    def _loop(self, begun: Begun | None) -> Iterator[Any]:
        if begun is None:
            return
        # accelerate divides the order of rank 0 of 1, whatever the rank of this process.
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
