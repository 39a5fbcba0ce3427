from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from packer.errors import UsageError
from packer.reader.order import cursor
from packer.reader.order.cursor import EpochCursor
from packer.reader.order.statedict import Place
from packer.reader.order.walk import Walk

pytestmark = pytest.mark.slow


class Workers:
    """Copies of a EpochCursor in the worker processes of one DataLoader, which share its memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, origin: EpochCursor, count: int) -> None:
        self._patch = monkeypatch
        self._seed = 1000 * count
        self._copies = []
        for _ in range(count):
            worker = copy.copy(origin)
            worker._walk, worker._walks = None, 0
            self._copies.append(worker)

    def begin(self) -> list[Walk]:
        """An epoch: each of them begins a walk."""
        return [self.of(number).begin() for number in range(len(self._copies))]

    def of(self, number: int) -> Any:
        info = SimpleNamespace(id=number, num_workers=len(self._copies), seed=self._seed + number)
        self._patch.setattr(cursor, "get_worker_info", lambda: info)
        return self._copies[number]

    def training_process(self) -> None:
        self._patch.setattr(cursor, "get_worker_info", lambda: None)


def test_each_walk_is_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    own = EpochCursor()
    assert [own.begin().epoch for _ in range(3)] == [0, 1, 2]
    persistent = Workers(monkeypatch, own, 3)
    assert persistent.begin() == [Walk(3, 0, number, 3) for number in range(3)]
    assert persistent.begin() == [Walk(4, 0, number, 3) for number in range(3)]
    persistent.training_process()
    own.set_epoch(7)
    assert persistent.begin() == [Walk(7, 0, number, 3) for number in range(3)]
    assert own.next() == Place(8, 0)


def test_workers_of_two_walks_begin_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop is left, and another one begins, before some workers of the first have begun."""
    own = EpochCursor()
    first, second = Workers(monkeypatch, own, 2), Workers(monkeypatch, own, 3)
    assert first.of(1).begin() == Walk(0, 0, 1, 2)
    assert second.of(2).begin() == Walk(1, 0, 2, 3)
    assert first.of(0).begin() == Walk(0, 0, 0, 2)
    assert [second.of(number).begin().epoch for number in (0, 1)] == [1, 1]
    assert first.of(0).begin().epoch == 2


def test_the_place_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the first walk after `resume`; the next ones are whole epochs."""
    own = EpochCursor()
    own.resume(Place(2, 40))
    assert own.begin() == Walk(2, 40, 0, 1)
    assert own.begin() == Walk(3, 0, 0, 1)
    own.resume(Place(2, 40))
    workers = Workers(monkeypatch, own, 3)
    assert workers.begin() == [Walk(2, 40, number, 3) for number in range(3)]
    assert workers.begin() == [Walk(3, 0, number, 3) for number in range(3)]


def test_set_epoch_keeps_the_place_in_its_own_epoch_alone() -> None:
    own = EpochCursor()
    own.resume(Place(2, 40))
    own.set_epoch(2)
    assert own.begin().start == 40
    own.set_epoch(2)
    assert own.begin().start == 0
    own.resume(Place(2, 40))
    own.set_epoch(3)
    assert own.begin() == Walk(3, 0, 0, 1)
    own.set_epoch(2)
    assert own.begin() == Walk(2, 0, 0, 1)


def at_90(position: int) -> bool:
    return position >= 90


def test_an_epoch_that_has_ended_gives_nothing_more() -> None:
    own = EpochCursor()
    own.resume(Place(2, 90))
    assert (own.next(at_90), own.begin(1, at_90)) == (Place(3, 0), Walk(3, 0, 0, 1))
    own.resume(Place(2, 90))
    own.set_epoch(2)
    assert own.begin(1, at_90) == Walk(2, 90, 0, 1)
    own.set_epoch(2)
    own.resume(Place(2, 90))  # as a loader does, when its loop has chosen the epoch
    assert own.begin(1, at_90) == Walk(2, 90, 0, 1)
    own.set_epoch(3)
    assert own.begin(1, at_90) == Walk(3, 0, 0, 1)


def test_the_place_of_a_direct_loop() -> None:
    own = EpochCursor()
    own.set_epoch(4)
    assert own.place() == Place(4, 0)
    own.resume(Place(4, 30))
    assert own.place() == Place(4, 30)
    assert own.last() is None
    walk = own.begin(10)
    assert own.last() == (Place(4, 30), 10)
    walk.step = 2
    assert own.place() == Place(4, 50)
    walk.ended = True
    assert own.place() == own.next() == Place(5, 0)
    own.set_epoch(7)
    assert own.place() == Place(7, 0)
    assert own.last() is None


def test_workers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = EpochCursor()
    own.resume(Place(1, 20))
    workers = Workers(monkeypatch, own, 2)
    workers.begin()
    workers.training_process()
    with pytest.raises(UsageError, match="step=n"):
        own.place()
    assert own.last() == (Place(1, 20), 1)
    own.set_epoch(2)
    assert own.place() == Place(2, 0)
    assert own.last() is None


def test_frameworks_that_read_ahead_are_noticed() -> None:
    own = EpochCursor()
    own.begin(4, loop_stride=8, framework=True)
    with pytest.raises(UsageError, match=r"accelerate has read ahead.*step=n"):
        own.place()
    assert own.last() == (Place(0, 0), 8)
    own.announce(8)
    assert own.last() == (Place(1, 0), 8)
    assert own.next() == Place(2, 0)


def test_a_worker_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = EpochCursor()
    workers = Workers(monkeypatch, own, 2)
    workers.of(1).resume_worker(Place(1, 20), 5)
    assert workers.of(1).begin() == Walk(1, 20, 5, 2)
    assert workers.of(0).begin() == Walk(1, 20, 0, 2)
    assert workers.of(1).begin() == Walk(2, 0, 1, 2)
    with pytest.raises(UsageError, match="a loader has resumed its workers"):
        workers.of(0).resume_worker(Place(1, 20), 4)
        workers.of(0).begin()
        workers.training_process()
        own.last()


def test_a_loaders_state_yields_to_the_epoch_that_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For all workers, although for the second one nothing is chosen any more."""
    own = EpochCursor()
    own.set_epoch(2)
    workers = Workers(monkeypatch, own, 2)
    workers.of(0).resume_worker(Place(1, 20), 4)
    assert workers.of(0).begin() == Walk(2, 0, 0, 2)
    workers.of(1).resume_worker(Place(1, 20), 5)
    assert workers.of(1).begin() == Walk(2, 0, 1, 2)
    workers.training_process()
    own.set_epoch(2)
    workers.of(0).resume_worker(Place(2, 20), 4)
    assert workers.of(0).begin() == Walk(2, 20, 4, 2)


def test_workers_that_are_started_only_to_be_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a StatefulDataLoader does with the state of a whole epoch."""
    own = EpochCursor()
    own.set_epoch(2)
    dropped = Workers(monkeypatch, own, 2)
    for number in range(2):
        dropped.of(number).resume_worker(Place(1, 0), 9, ended=True)
    assert [walk.epoch for walk in dropped.begin()] == [2, 2]
    assert [walk.epoch for walk in Workers(monkeypatch, own, 3).begin()] == [2, 2, 2]
    assert own.next() == Place(3, 0)


def test_one_warning() -> None:
    own = EpochCursor()
    assert [own.first_warning() for _ in range(3)] == [True, False, False]


def test_a_copy_is_independent() -> None:
    own = EpochCursor()
    own.begin()
    other = pickle.loads(pickle.dumps(own))
    assert [other.begin().epoch for _ in range(2)] == [1, 2]
    assert own.begin().epoch == 1
