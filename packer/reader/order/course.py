"""One rank's way through the epochs of a pack: its mini-batches, and how far it has come."""

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
        schedule: The rank's mini-batches.
        division: How accelerate divides them further; None if it does not.
    """

    walk: Walk
    schedule: Schedule
    division: Division | None


class Course:
    """Epoch, position and schedule of a stream or a sampler.

    The rank is looked up again each time that a result depends on it, as a process group may have
    been initialised meanwhile: see `packer.reader.order.ranks.resolve`.

    Args:
        pack: The pack.
        options: Options of the order; their rank and number of ranks are not used.
        rank: Rank of this process; None: it is looked up.
        world_size: Number of ranks; None: it is looked up.

    Raises:
        UsageError: The rank is invalid.

    Attributes:
        cursor: Epoch and position, shared among processes.
    """

    def __init__(
        self, pack: Pack, options: OrderOptions, rank: int | None, world_size: int | None
    ) -> None:
        self._pack = pack
        self._options = options
        self._given = rank, world_size
        self._schedules: dict[tuple[int, int], Schedule] = {}
        #: As in the process that pickled this course. A worker uses it, as it has no process group.
        self._settled: tuple[Schedule, Division | None] | None = None
        self._settled_in = 0  # the process that unpickled this
        self.cursor = EpochCursor()
        self.schedule()

    def schedule(self) -> Schedule:
        """Return the schedule of this process's rank; that of rank 0 of 1 if accelerate divides.

        Raises:
            UsageError: The given rank is not that of the process group.
        """
        return self._now()[0]

    def next(self) -> Place:
        """Return where the next loop begins."""
        return self.cursor.next(self.schedule().ended)

    def division(self) -> Division | None:
        """Return how accelerate divides; None if it does not."""
        return self._now()[1]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop."""
        schedule, division = self._now()
        stride = _stride(schedule, division)
        choose_epoch(self.cursor, epoch, division, stride, schedule.ended)

    def reading(self) -> tuple[Schedule, Division | None]:
        """Return the schedule and the division for the loop that begins. Warns once if each process
        of a group reads everything.

        Raises:
            UsageError: The given rank is not that of the process group.
        """
        schedule, division = self._now()
        world_size = ranks.group_size()
        if division is None and self._given[1] == 1 < world_size and self.cursor.first_warning():
            warnings.warn(
                f"{self._pack.root}: world_size=1 was given, so each of the {world_size} processes "
                f"of torch.distributed reads all {len(self._pack)} samples of split "
                f"{self._pack.split!r}; leave out rank and world_size, and each reads its part",
                stacklevel=2,
            )
        return schedule, division

    def begin(self) -> Begun | None:
        """Begin a walk of this process; return None if accelerate does not read in this process."""
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
        """Return the identity of the order, which states of this course carry."""
        return sequence_of(self._pack, self.schedule())

    def state(self) -> dict[str, Any]:
        """Return the state of this process; in a worker, its share of the walk.

        Raises:
            UsageError: Only the training loop can count the mini-batches that it has got.
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
        """Return the state after `step` mini-batches of the last loop, or of the next loop if none
        has begun since the epoch was chosen.

        Args:
            step: Number of mini-batches that the loop has got since it began.

        Raises:
            UsageError: The loop has fewer mini-batches, or a loader has resumed it and only its own
                state counts them.
        """
        schedule = self.schedule()
        place, stride = self.cursor.last() or (self.next(), schedule.stride)
        most = schedule.global_steps(place.position, stride)
        if not 0 <= step <= most:
            raise UsageError(
                f"step {step} is out of range: 0 to {most} mini-batches of this loop",
                "count those that the loop has got since it began, not since the epoch did",
            )
        return self._written(Place(place.epoch, place.position + step * stride))

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from a state with the next loop of this process; in a worker, with its own share.

        Raises:
            UsageError: The state is invalid, or belongs to another order.
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
        """Resume from a state with the next loop, in this process or in workers.

        Raises:
            UsageError: The state is invalid, or belongs to another order.
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
        epoch: Number of the epoch.
        division: How accelerate divides; None if the caller is not accelerate. accelerate calls
            `set_epoch` at the beginning of each loop with its own count of whole loops, which must
            neither repeat an epoch whose loop was left nor lose a place that was loaded. In a
            process for which another one reads, that call is the only sign that a loop begins.
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
    """Make a rank's schedule for a pack. Warns if it is empty although the pack is not."""
    index = pack.index
    schedule = Schedule(index["batch_count"], index["batch_bytes"], options)
    if not len(schedule) and len(pack) and options.tail == "drop":
        warnings.warn(
            f"{pack.root}: an epoch has no mini-batches: split {pack.split!r} has fewer samples "
            f"({len(pack)}) than one global mini-batch ({options.batch_size} x "
            f"{options.world_size}), and tail='drop' leaves them out; use tail='pad' or a smaller "
            "batch_size",
            stacklevel=3,
        )
    return schedule


def sequence_of(pack: Pack, schedule: Schedule) -> OrderIdentity:
    """Return the identity of the order of this pack and schedule."""
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
    """Return the number of samples that one step of the training loop takes on all ranks."""
    return schedule.stride * (1 if division is None else division.mini_batches)
