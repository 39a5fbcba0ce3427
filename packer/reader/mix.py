"""Several streams as one: packs concatenated, or mixed with weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from packer.arguments import explain_unknown
from packer.attributes import ReadOnly
from packer.errors import UsageError
from packer.reader.batches.rebatching import refuse_rebatching
from packer.reader.elsewhere import what_to_write
from packer.reader.order import ranks
from packer.reader.order.course import choose_epoch
from packer.reader.order.cursor import EpochCursor
from packer.reader.order.division import Division, sendable
from packer.reader.order.hashing import combine, keys
from packer.reader.order.walk import Walk
from packer.reader.stream import BatchStream
from packer.types import Array

# Makes this hash differ from those of the order.
_MIX = 48


class MixedStream(IterableDataset[Any]):
    """Mini-batches of several streams: packs concatenated, or mixed with weights.

    It is used as a BatchStream is: `DataLoader(stream, batch_size=None)`, or directly. The order
    depends on (seed, epoch) alone.

    Each mini-batch comes from one stream, the same one on all ranks. The number of mini-batches
    that an epoch takes from each stream is exact, not drawn. Without weights it takes all of each:
    the packs are concatenated. With weights a stream goes on, in the next epoch, where it stopped,
    and begins its next own epoch when it runs out: each of its samples is seen, and none is seen
    twice before all of them were seen once.

    The first loop reads epoch 0, and each new loop the next epoch, unless `set_epoch` chose
    another.

    Args:
        streams: The streams; they yield the same fields, and their ranks agree.
        weights: Shares of the mini-batches, one number for each stream; None: in proportion to the
            streams' lengths.
        length: Number of mini-batches of an epoch on each rank; None: the most that takes no
            stream more than once.
        seed: Seed of the order. Must be equal on all ranks.

    Raises:
        UsageError: An argument is invalid, or streams do not fit together.
    """

    @explain_unknown(what_to_write)
    def __init__(
        self,
        streams: Sequence[BatchStream],
        *,
        weights: Sequence[float] | None = None,
        length: int | None = None,
        seed: int = 0,
    ) -> None:
        self._streams = _listed(streams)
        self._weights = None if weights is None else tuple(weights)
        self._length = length
        self._seed = seed
        self._cursor = EpochCursor()
        self._plan()

    @property
    def counts(self) -> Array:
        """int64, number of mini-batches that an epoch takes from each stream."""
        return self._plan()[1]

    streams: ReadOnly[tuple[BatchStream, ...]] = ReadOnly(lambda self: self._streams)
    weights: ReadOnly[tuple[float, ...] | None] = ReadOnly(lambda self: self._weights)
    length: ReadOnly[int] = ReadOnly(len)
    seed: ReadOnly[int] = ReadOnly(lambda self: self._seed)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next loop reads, in this process and its workers; the loop
        after it reads `epoch + 1`.
        """
        choose_epoch(self._cursor, epoch, self.streams[0].course.division())

    @property
    def epoch(self) -> int:
        """The epoch that the next loop reads. Once a loop has begun, it is the one after that
        loop's.
        """
        return self._cursor.next().epoch

    def __len__(self) -> int:
        """Number of mini-batches of an epoch on each rank, over all workers."""
        return int(self.counts.sum())

    def sources(self, epoch: int) -> Array:
        """int64, the number of the stream that each mini-batch of an epoch comes from."""
        listed = np.repeat(np.arange(len(self.streams)), self.counts)
        drawn = keys(combine(self._seed, epoch, _MIX), np.arange(len(listed)))
        sources: Array = listed[np.argsort(drawn, kind="stable")]
        return sources

    def __iter__(self) -> Iterator[Any]:
        """This process's share of the mini-batches; raises what a BatchStream's loop raises."""
        refuse_rebatching(self)
        if ranks.worker() is None:
            return self._begun_at_first_use()
        return self._loop(*self._begin())

    def _begun_at_first_use(self) -> Iterator[Any]:
        yield from self._loop(*self._begin())

    def _begin(self) -> tuple[Walk | None, Division | None]:
        division = self.streams[0].course.division()
        if division is not None and not division.reads:
            return None, division
        return self._cursor.begin(framework=division is not None), division

    def _loop(self, walk: Walk | None, division: Division | None) -> Iterator[Any]:
        if walk is None:
            return
        lengths, counts = self._plan()
        sources = self.sources(walk.epoch)
        mine = np.arange(len(sources)) % walk.workers == walk.step
        walks = []
        for number, stream in enumerate(self.streams):
            chosen = np.flatnonzero(mine[sources == number]) + walk.epoch * counts[number]
            epochs, steps = np.divmod(chosen, max(1, lengths[number]))
            walks.append(stream.mini_batches(zip(epochs.tolist(), steps.tolist(), strict=True)))
        for source in sources[mine].tolist():
            mini_batch = next(walks[source])
            if division is not None and division.dispatched:
                mini_batch = sendable(mini_batch, self.streams[0].fields)
            yield mini_batch

    def _plan(self) -> tuple[Array, Array]:
        """int64 each: number of mini-batches of each stream on this rank, and how many of them an
        epoch takes. Both depend on the number of ranks, which may come up after the streams.
        """
        _check_streams(self.streams)
        lengths = np.array([len(stream) for stream in self.streams], np.int64)
        shares = _shares(lengths, self._weights)
        length = self._length
        if length is None:
            used = shares > 0
            length = int(np.min(lengths[used] / shares[used]) + 1e-9)
        counts = apportion(shares, length)
        if (counts[lengths == 0] > 0).any() or length < 1:
            raise UsageError(f"streams of {lengths.tolist()} mini-batches, {length} wanted of them")
        return lengths, counts


def apportion(shares: Array, total: int) -> Array:
    """int64: `total` divided in proportion to `shares` (they sum to 1) into whole numbers, by
    largest remainders (Hamilton's method); of equal remainders the first.
    """
    exact = shares * total
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1
    return counts


def _shares(lengths: Array, weights: Sequence[float] | None) -> Array:
    given = np.asarray(lengths if weights is None else weights, np.float64)
    if given.shape != lengths.shape:
        raise UsageError(f"{given.size} weights for {lengths.size} streams", "one for each stream")
    if not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
        raise UsageError(f"invalid weights {given.tolist()}", "0 or more, not all 0")
    shares: Array = given / given.sum()
    return shares


def _listed(streams: Sequence[BatchStream]) -> tuple[BatchStream, ...]:
    given = list(streams) if isinstance(streams, list | tuple) else [streams]
    for stream in given:
        if not isinstance(stream, BatchStream):
            raise UsageError(
                f"MixedStream takes streams, not {type(stream).__name__}",
                "MixedStream([BatchStream(one, …), BatchStream(other, …)])",
            )
    return tuple(streams)


def _check_streams(streams: Sequence[BatchStream]) -> None:
    if not streams:
        raise UsageError("no streams to mix", "one or more")
    first = streams[0]
    options = first.schedule.options
    for stream in streams:
        if (stream.fields, stream.as_dict) != (first.fields, first.as_dict):
            raise UsageError(f"streams yield {first.fields} and {stream.fields}", "the same fields")
        other = stream.schedule.options
        if (other.rank, other.world_size) != (options.rank, options.world_size):
            raise UsageError("streams of different ranks", "mix streams of one rank")
        if other.tail == "keep" and other.world_size > 1:
            raise UsageError(
                "tail='keep' gives ranks different numbers of mini-batches: nothing to mix",
                "tail='drop' or 'pad'",
            )
