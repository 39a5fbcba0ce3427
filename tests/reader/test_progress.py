from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from packer.errors import UsageError
from packer.reader import progress
from packer.reader.progress import Progress, Walk
from packer.reader.state import Place


class Workers:
    """Copies of a Progress in the worker processes of one DataLoader, which share its memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, origin: Progress, count: int) -> None:
        self._patch = monkeypatch
        self._seed = 1000 * count
        self._copies = []
        for _ in range(count):
            copy = pickle.loads(pickle.dumps(origin))
            copy._memory = origin._memory
            self._copies.append(copy)

    def begin(self) -> list[Walk]:
        """An epoch: each of them begins a walk."""
        return [self.of(number).begin() for number in range(len(self._copies))]

    def of(self, number: int) -> Any:
        info = SimpleNamespace(id=number, num_workers=len(self._copies), seed=self._seed + number)
        self._patch.setattr(progress, "get_worker_info", lambda: info)
        return self._copies[number]


def test_the_place_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the first walk after `resume`; without a set_epoch the next ones are whole epochs."""
    own = Progress()
    own.resume(Place(2, 40), ended=False)
    assert own.begin() == Walk(2, 40, 0, 1)
    assert own.begin() == Walk(2, 0, 0, 1)
    own.resume(Place(2, 40), ended=False)
    persistent = Workers(monkeypatch, own, 3)
    assert persistent.begin() == [Walk(2, 40, number, 3) for number in range(3)]
    assert persistent.begin() == [Walk(2, 0, number, 3) for number in range(3)]
    own.resume(Place(2, 60), ended=False)
    assert Workers(monkeypatch, own, 2).begin() == [Walk(2, 60, number, 2) for number in range(2)]
    assert Workers(monkeypatch, own, 4).begin() == [Walk(2, 0, number, 4) for number in range(4)]


def test_set_epoch_keeps_the_place_in_its_own_epoch_alone() -> None:
    own = Progress()
    own.resume(Place(2, 40), ended=False)
    own.set_epoch(2)
    assert own.begin().start == 40
    own.resume(Place(2, 40), ended=False)
    own.set_epoch(3)
    assert own.begin() == Walk(3, 0, 0, 1)
    own.set_epoch(2)
    assert own.begin() == Walk(2, 0, 0, 1)


def test_an_epoch_that_has_ended_gives_nothing_more() -> None:
    own = Progress()
    own.resume(Place(2, 90), ended=True)
    assert (own.epoch, own.begin()) == (3, Walk(3, 0, 0, 1))
    own.resume(Place(2, 90), ended=True)
    own.set_epoch(2)
    assert own.begin() == Walk(2, 90, 0, 1)
    own.resume(Place(2, 90), ended=True)  # as a loader does, when its loop has chosen the epoch
    assert own.begin() == Walk(2, 90, 0, 1)
    own.set_epoch(3)
    assert own.begin() == Walk(3, 0, 0, 1)


def test_the_place_of_a_direct_loop() -> None:
    own = Progress()
    own.set_epoch(4)
    assert own.place(10) == Place(4, 0)
    own.resume(Place(4, 30), ended=False)
    assert own.place(10) == Place(4, 30)
    walk = own.begin()
    walk.step = 2
    assert own.place(10) == Place(4, 50)
    walk.ended = True
    assert own.place(10) == Place(5, 0)
    own.set_epoch(7)
    assert own.place(10) == Place(7, 0)


def test_workers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Progress()
    own.resume(Place(1, 20), ended=False)
    Workers(monkeypatch, own, 2).begin()
    with pytest.raises(UsageError, match="step=n"):
        own.place(10)
    assert own.walk_start() == Place(1, 20)
    own.set_epoch(2)
    assert own.place(10) == Place(2, 0)
    assert own.walk_start() == Place(2, 0)


def test_a_worker_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Progress()
    workers = Workers(monkeypatch, own, 2)
    workers.of(1).resume_worker(Place(1, 20), 5)
    assert workers.of(1).begin() == Walk(1, 20, 5, 2)
    assert workers.of(0).begin() == Walk(0, 0, 0, 2)
    assert workers.of(1).begin() == Walk(0, 0, 1, 2)


def test_a_loaders_state_yields_to_the_epoch_that_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Progress()
    own.set_epoch(2)
    workers = Workers(monkeypatch, own, 1)
    workers.of(0).resume_worker(Place(1, 20), 5)
    assert workers.of(0).begin() == Walk(2, 0, 0, 1)
    workers.of(0).resume_worker(Place(2, 20), 5)
    assert workers.of(0).begin() == Walk(2, 20, 5, 1)
    with pytest.raises(UsageError, match="a loader has resumed its workers"):
        own.walk_start()
