"""Mini-batches ready for training, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset

from packer.errors import UsageError, suggestion
from packer.reader import ranks
from packer.reader.collate import collate_images, collate_labels
from packer.reader.dataset import PackedDataset
from packer.reader.decoding import IMAGE
from packer.reader.hashing import Draws, combine
from packer.reader.order import EpochOrder, OrderOptions, Piece, Schedule
from packer.reader.sampler import make_schedule
from packer.reader.windows import WindowBuffer

LABEL = "label"
KEY = "key"
#: Tells the hashes that seed augmentation from those that make the order.
_AUGMENT = 16


class BatchStream(IterableDataset[tuple[Any, ...]]):
    """Mini-batches of a pack: for `DataLoader(stream, batch_size=None, num_workers=N)`, or to
    iterate over directly.

    Each mini-batch is a tuple in the order of `fields`: pictures of one size as one uint8 tensor
    N×3×H×W in channels-last memory, others as a list of tensors 3×H×W (decode="bytes": a list of
    bytes; with a transform: see `packer.reader.collate`); "label" as int64 N; "key" (the original
    paths) as a list of str; a field of bytes as a list of bytes, None where a sample lacks it.

    Workers take the mini-batches in turn, so a DataLoader yields them in the same order for any
    number of workers. Built-in random transforms draw from (seed, epoch, sample): the same crops,
    too, for any number of workers and ranks.

    Every `iter` reads the epoch that was set last, 0 at first: call `set_epoch` before each epoch,
    as with torch's DistributedSampler; it reaches persistent workers, too.

    Args:
        dataset: Whose samples, with its transforms and `decode`.
        batch_size: Samples in a mini-batch of one rank; need not match the on-disk batches.
        shuffle: "none", "batch", "window" or "full"; see `packer.reader.order.OrderOptions`.
        window: On-disk batches that are shuffled together; held in memory, 512 MB at most.
        seed: Of the order and of built-in transforms. Must be equal on all ranks.
        tail: "drop", "pad" or "keep"; None: keep for shuffle "none", else drop.
        rank: Of this process; None: torch.distributed's, else the environment's, else 0.
        world_size: Number of ranks; given with `rank` or not at all.
        fields: What to yield.

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
    ) -> None:
        rank, world_size = ranks.resolve(rank, world_size)
        options = OrderOptions(batch_size, shuffle, window, seed, tail, rank, world_size)
        self.dataset = dataset
        self.schedule: Schedule = make_schedule(dataset.pack, options)
        self.fields = tuple(fields)
        _check_fields(dataset, self.fields)
        # In shared memory: worker processes that live through several epochs see it change.
        self._epoch = _shared_integer()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next `iter` reads, in this process and its workers."""
        self._epoch.fill_(epoch)

    @property
    def epoch(self) -> int:
        """The epoch that the next `iter` reads."""
        return int(self._epoch)

    def __len__(self) -> int:
        """Mini-batches of an epoch on this rank, over all workers."""
        return len(self.schedule)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """This process's share of the mini-batches.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
        """
        self.dataset.enter_process(self.schedule.options.rank)
        worker, workers = ranks.worker() or (0, 1)
        epoch = self.epoch
        order = self.schedule.order(epoch)
        buffer = WindowBuffer(self.dataset.payloads, order)
        for step in range(worker, len(self), workers):
            yield self._mini_batch(order, step, buffer, epoch)

    def _mini_batch(
        self, order: EpochOrder, step: int, buffer: WindowBuffer, epoch: int
    ) -> tuple[Any, ...]:
        columns: dict[str, list[Any]] = {name: [] for name in self.fields}
        for piece in order.pieces(*self.schedule.bounds(step)):
            for name in self.fields:
                columns[name].extend(self._column(name, piece, buffer, epoch))
        return tuple(self._collated(name, columns[name]) for name in self.fields)

    def _column(self, name: str, piece: Piece, buffer: WindowBuffer, epoch: int) -> Iterator[Any]:
        pack = self.dataset.pack
        samples = piece.samples
        if name == LABEL:
            labels = pack.index["label"][samples].tolist()
            yield from (self.dataset.target(label) for label in labels)
        elif name == KEY:
            yield from (pack.key(sample) for sample in samples.tolist())
        elif name == IMAGE:
            for sample, payload in zip(samples.tolist(), buffer.read(piece, name), strict=True):
                yield self._image(payload, sample, epoch)
        else:
            for payload in buffer.read(piece, name):
                yield None if payload is None else bytes(payload)

    def _image(self, payload: memoryview | None, sample: int, epoch: int) -> Any:
        decoder = self.dataset.decoder
        draws = Draws(combine(self.schedule.options.seed, epoch, _AUGMENT, sample))
        if decoder.decode == "bytes" or decoder.others:
            return decoder.image(payload, sample, draws)
        return decoder.pixels(payload, sample, draws)

    def _collated(self, name: str, column: list[Any]) -> Any:
        if name == LABEL:
            return collate_labels(column)
        return collate_images(column) if name == IMAGE else column


def _check_fields(dataset: PackedDataset, fields: Sequence[str]) -> None:
    known = {LABEL, KEY, *dataset.pack.stored_fields()}
    for name in fields:
        if name not in known:
            raise UsageError(f"unknown field {name!r}", suggestion(name, known))
    if len(set(fields)) != len(fields) or not fields:
        raise UsageError(f"fields {tuple(fields)} cannot be", "one or more names, each once")


def _shared_integer() -> Any:
    """A tensor of one int64 that DataLoader's worker processes see change."""
    tensor: Any = torch.zeros((), dtype=torch.int64)
    return tensor.share_memory_()
