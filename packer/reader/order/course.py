"""The way of one rank through the epochs of a pack: which mini-batches, and how far it has come."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from packer.errors import UsageError
from packer.pack.opened import Pack
from packer.reader.order import ranks
from packer.reader.order.cursor import EpochCursor
from packer.reader.order.division import Division, find_division
from packer.reader.order.options import OrderOptions
from packer.reader.order.record import Ended, never
from packer.reader.order.schedule import Schedule
from packer.reader.order.statedict import (
    OrderIdentity,
    Place,
    Share,
    make_state,
    parse_share,
    parse_state,
)
from packer.reader.order.walk import Walk


class Begun(NamedTuple):
    """A walk that has begun.

    Attributes:
        walk: This process's way through the epoch.
        schedule: Which mini-batches are this rank's.
        division: How accelerate divides them further, if it does.
    """

    walk: Walk
    schedule: Schedule
    division: Division | None


class Course:
    """Epoch, position and schedule of a stream or a sampler.

    The rank is looked up again whenever something depends on it, as a process group may have come
    up meanwhile: see `packer.reader.order.ranks.resolve`.

    Args:
        pack: Whose samples.
        options: Of the order; their rank does not count.
        rank: Of this process, if given by the user.
        world_size: Number of ranks, if given by the user.

    Raises:
        UsageError: A rank that cannot be.

    Attributes:
        cursor: Epoch and position, which the processes share.
    """

    def __init__(
        self, pack: Pack, options: OrderOptions, rank: int | None, world_size: int | None
    ) -> None:
        self._pack = pack
        self._options = options
        self._given = rank, world_size
        self._schedules: dict[tuple[int, int], Schedule] = {}
        #: As it was in the process that pickled this, for a worker: it has no process group to ask.
        self._settled: tuple[Schedule, Division | None] | None = None
        self._settled_in = 0  # the process that unpickled this
        self.cursor = EpochCursor()
        self.schedule()

    def schedule(self) -> Schedule:
        """The schedule of this process's rank; the whole one while accelerate divides.

        Raises:
            UsageError: The rank that was given is not that of the process group.
        """
        return self._now()[0]

    def next(self) -> Place:
        """Where the next loop begins."""
        return self.cursor.next(self.schedule().ended)

    def division(self) -> Division | None:
        """How accelerate divides, if it does."""
        return self._now()[1]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop."""
        schedule, division = self._now()
        stride = _stride(schedule, division)
        choose_epoch(self.cursor, epoch, division, stride, schedule.ended)

    def reading(self) -> tuple[Schedule, Division | None]:
        """What this process is about to read. Warns once if every process reads everything.

        Raises:
            UsageError: The rank that was given is not that of the process group.
        """
        schedule, division = self._now()
        world_size = ranks.group_size()
        if division is None and self._given[1] == 1 < world_size and self.cursor.first_warning():
            warnings.warn(
                f"{self._pack.root}: world_size=1 was given, so each of the {world_size} processes "
                f"of torch.distributed reads all {len(self._pack)} samples of split "
                f"{self._pack.split!r}; without rank and world_size each would read its part",
                stacklevel=2,
            )
        return schedule, division

    def begin(self) -> Begun | None:
        """Begin a walk of this process; None if accelerate does not read in this process."""
        schedule, division = self.reading()
        if division is not None and not division.reads:
            return None
        if division is not None and division.epoch is not None:
            # accelerate's set_epoch does not reach a sampler behind its skip_first_batches.
            self.cursor.advance(division.epoch, schedule.ended)
        walk = self.cursor.begin(
            schedule.stride,
            schedule.ended,
            loop_stride=_stride(schedule, division),
            framework=division is not None,
        )
        return Begun(walk, schedule, division)

    def sequence(self) -> OrderIdentity:
        """What a state of this course belongs to."""
        return sequence_of(self._pack, self.schedule())

    def state(self) -> dict[str, Any]:
        """How far this process has come; in a worker, its share of the walk.

        Raises:
            UsageError: Only the training loop knows.
        """
        schedule = self.schedule()
        worker = ranks.worker()
        if worker is None:
            return self._written(self.cursor.place(schedule.ended))
        walk = self.cursor.walk()
        if walk is None:
            begun = self.begin()
            if begun is None:
                return self._written(self.next())
            walk = begun.walk
        share = Share(*worker, walk.stride, walk.step)
        return make_state(self.sequence(), Place(walk.epoch, walk.start), share)

    def state_at(self, step: int) -> dict[str, Any]:
        """How far training has come with the last loop, or would come with the next if there was
        none since the epoch was chosen.

        Args:
            step: Mini-batches that the loop has got since it began.

        Raises:
            UsageError: There are not so many, or only the loader that resumed the loop knows.
        """
        schedule = self.schedule()
        place, stride = self.cursor.last() or (self.next(), schedule.stride)
        most = schedule.global_steps(place.position, stride)
        if not 0 <= step <= most:
            raise UsageError(
                f"step {step} is none of the {most} mini-batches of this loop",
                "count those that the loop has got since it began, not since the epoch did",
            )
        return self._written(Place(place.epoch, place.position + step * stride))

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a state with the next loop of this process; a worker, of its own part.

        Raises:
            UsageError: No such state, or of another sequence.
        """
        worker = ranks.worker()
        if worker is None:
            self.resume(state)
        else:
            schedule = self.schedule()
            place, step = parse_share(state, self.sequence(), *worker, schedule.stride)
            ended = step >= schedule.steps(place.position)
            self.cursor.resume_worker(place, step, ended=ended)

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state with the next loop, whoever begins it.

        Raises:
            UsageError: No such state, or of another sequence.
        """
        self.cursor.resume(parse_state(state, self.sequence()))

    def _written(self, place: Place) -> dict[str, Any]:
        end = self.schedule().samples
        return make_state(self.sequence(), Place(place.epoch, min(place.position, end)))

    def _now(self) -> tuple[Schedule, Division | None]:
        if (
            self._settled is not None
            and self._settled_in == os.getpid()
            and ranks.worker() is not None
        ):
            return self._settled
        division = find_division()
        place = (0, 1) if division is not None else ranks.resolve(*self._given)
        if place not in self._schedules:
            options = replace(self._options, rank=place[0], world_size=place[1])
            self._schedules[place] = make_schedule(self._pack, options)
        return self._schedules[place], division

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_settled": self._now()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_settled_in": os.getpid()})


def choose_epoch(
    cursor: EpochCursor,
    epoch: int,
    division: Division | None,
    loop_stride: int = 1,
    ended: Ended = never,
) -> None:
    """Choose the epoch that the next loop reads.

    Args:
        cursor: Cursor of a stream or a sampler.
        epoch: Which one.
        division: How accelerate divides, if it is what calls. At the beginning of every loop it
            gives its own count of whole loops, which must neither repeat an epoch whose loop was
            left nor lose a place that was loaded. For a process for which another one reads, it is
            the only sign that a loop begins.
        loop_stride: As `EpochCursor.begin`'s.
        ended: As `EpochCursor.begin`'s.
    """
    if division is None or division.epoch is None:
        cursor.set_epoch(epoch)
        return
    cursor.advance(division.epoch, ended)
    if not division.reads:
        cursor.announce(loop_stride, ended)


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


def sequence_of(pack: Pack, schedule: Schedule) -> OrderIdentity:
    """What a state of this pack and schedule belongs to."""
    options = schedule.options
    return OrderIdentity(
        pack=pack.identity,
        samples=schedule.samples,
        seed=options.seed,
        shuffle=options.shuffle,
        window=options.window,
        tail=str(options.tail),
    )


def _stride(schedule: Schedule, division: Division | None) -> int:
    """Samples that one step of the training loop takes on all ranks together."""
    return schedule.stride * (1 if division is None else division.mini_batches)
