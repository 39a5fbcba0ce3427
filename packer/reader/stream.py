"""Mini-batches ready for training, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from packer.errors import UsageError
from packer.reader import ranks
from packer.reader.dataset import PackedDataset
from packer.reader.decoding import IMAGE
from packer.reader.fields import Fields
from packer.reader.order import EpochOrder, OrderOptions, Schedule
from packer.reader.progress import Progress, Walk
from packer.reader.sampler import make_schedule, sequence_of
from packer.reader.skipping import SkippedSample
from packer.reader.state import Place, Share, read_share, read_state, write_state
from packer.reader.windows import WindowBuffer
from packer.types import Array


class BatchStream(IterableDataset[Any]):
    """Mini-batches of a pack: for `DataLoader(stream, batch_size=None, num_workers=N)`, or to
    iterate over directly.

    Each mini-batch is a named tuple in the order of `fields`: pictures of one size as one uint8
    tensor N×3×H×W in channels-last memory, others as a list of tensors 3×H×W (decode="bytes": a
    list of bytes; with a transform: see `packer.reader.collate`); "label" as int64 N; "key" (the
    original paths) as a list of str; a field of bytes as a list of bytes, None where a sample lacks
    it.

    Workers take the mini-batches in turn, so a DataLoader yields them in the same order for any
    number of workers. Built-in random transforms draw from (seed, epoch, sample): the same crops,
    too, for any number of workers and ranks.

    Every `iter` reads the epoch that was set last, 0 at first: call `set_epoch` before each epoch,
    as with torch's DistributedSampler; it reaches persistent workers, too.

    Args:
        dataset: Whose samples, with its transforms and `decode`.
        batch_size: Samples in a mini-batch of one rank; need not match the on-disk batches.
        shuffle: "none", "batch", "window" or "full"; see `packer.reader.order.OrderOptions`.
        window: On-disk batches that are mixed at a time; held in memory, 512 MB at most.
        seed: Of the order and of built-in transforms. Must be equal on all ranks.
        tail: "drop", "pad" or "keep"; None: keep for shuffle "none", else drop.
        rank: Of this process; None: torch.distributed's, else the environment's, else 0.
        world_size: Number of ranks; given with `rank` or not at all.
        fields: What to yield.
        as_dict: Yield dicts by field name instead of tuples.

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
        fields: Sequence[str] = ("image", "label"),
        as_dict: bool = False,
    ) -> None:
        rank, world_size = ranks.resolve(rank, world_size)
        options = OrderOptions(batch_size, shuffle, window, seed, tail, rank, world_size)
        self.dataset = dataset
        self.schedule: Schedule = make_schedule(dataset.pack, options)
        self.fields = tuple(fields)
        self.as_dict = as_dict
        self._contents = Fields(dataset, self.fields, seed, as_dict)
        self._progress = Progress()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next `iter` reads, in this process and its workers. If it is
        the one that `load_state_dict` was given, the next `iter` goes on in it.
        """
        self._progress.set_epoch(epoch)

    @property
    def epoch(self) -> int:
        """The epoch that the next `iter` reads."""
        return self._progress.epoch

    @property
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
        StatefulDataLoader. In another DataLoader with workers, which read ahead, the training loop
        has to say how much it got. Once a direct loop has ended, the state is the next epoch's
        beginning.

        Args:
            step: Mini-batches that the loop has got since it began, that is since the last `iter`:
                after an epoch was gone on with, not those before.

        Raises:
            UsageError: Workers have read, and `step` is not given; or it cannot be.
        """
        sequence = sequence_of(self.dataset.pack, self.schedule)
        stride = self.schedule.stride
        worker = ranks.worker()
        walk = self._progress.walk()
        if worker is not None:
            walk = walk or self._progress.begin()
            share = Share(*worker, stride, walk.step)
            return write_state(sequence, Place(walk.epoch, walk.start), share)
        if step is None:
            place = self._progress.place(stride)
        else:
            place = self._progress.walk_start()
            most = self.schedule.steps(place.position)
            if not 0 <= step <= most:
                raise UsageError(
                    f"step {step} is none of the {most} mini-batches of this loop",
                    "count those that the loop has got since it began, not since the epoch did",
                )
            place = Place(place.epoch, place.position + step * stride)
        end = self.schedule.samples
        return write_state(sequence, Place(place.epoch, min(place.position, end)))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: the next `iter` gives what is left of its epoch; if that is nothing,
        the next epoch.

        Call it before the loader's workers start. Number of ranks, workers and mini-batch size may
        differ from what they were.

        Args:
            state: What `state_dict` returned, of this or another rank; or that of a
                StatefulDataLoader over a stream, to go on from it with another number of workers.

        Raises:
            UsageError: No such state, or of another pack, seed, shuffle, window or tail.
        """
        sequence = sequence_of(self.dataset.pack, self.schedule)
        worker = ranks.worker()
        if worker is None:
            place = read_state(state, sequence)
            self._progress.resume(place, self.schedule.ended(place.position))
        else:
            place, step = read_share(state, sequence, *worker, self.schedule.stride)
            self._progress.resume_worker(place, step)

    def __iter__(self) -> Iterator[Any]:
        """This process's share of the mini-batches.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
        """
        # Not a generator itself: a loop begins when `iter` is called, not with its first `next`.
        self.dataset.enter_process(self.schedule.options.rank)
        return self._walk_through(self._progress.begin())

    def _walk_through(self, walk: Walk) -> Iterator[Any]:
        order, buffer = self._open(walk.epoch, walk.workers)
        for step in range(walk.step, self.schedule.steps(walk.start), walk.workers):
            mini_batch = self._mini_batch(order, buffer, walk.epoch, step, walk.start)
            walk.step = step + walk.workers  # once it is handed out, the training loop has it
            yield mini_batch
        walk.ended = True

    def mini_batches(self, places: Iterable[tuple[int, int]]) -> Iterator[Any]:
        """The mini-batches at some places, (epoch, step) each, in the order given. Cheap where each
        epoch's steps ascend: what was read for one serves the next. Raises as `iter`.
        """
        self.dataset.enter_process(self.schedule.options.rank)
        _, workers = ranks.worker() or (0, 1)
        for epoch, group in itertools.groupby(places, key=operator.itemgetter(0)):
            order, buffer = self._open(epoch, workers)
            for _, step in group:
                yield self._mini_batch(order, buffer, epoch, step)

    def _open(self, epoch: int, workers: int) -> tuple[EpochOrder, WindowBuffer]:
        order, options = self.schedule.order(epoch), self.schedule.options
        payloads = self.dataset.payloads
        return order, WindowBuffer(payloads, order, options.rank, options.world_size, workers)

    def _mini_batch(
        self, order: EpochOrder, buffer: WindowBuffer, epoch: int, step: int, start: int = 0
    ) -> Any:
        buffer.enter(*self.schedule.span(step, start))

        def make(samples: Array) -> dict[str, Any]:
            return {name: self._column(name, samples, buffer, epoch) for name in self.fields}

        # Damaged samples' places may be taken by others.
        samples = self.schedule.mini_batch(order, step, start)
        skips = self.dataset.skips
        columns = self.dataset.payloads.steady(lambda: skips.around(samples, make))
        return self._contents.mini_batch(self._contents.collated(columns))

    def _column(self, name: str, samples: Array, buffer: WindowBuffer, epoch: int) -> Any:
        column = self._contents.column(name, samples, buffer.read)
        if name != IMAGE:
            return column
        return self._contents.images(column, epoch, samples.tolist())
