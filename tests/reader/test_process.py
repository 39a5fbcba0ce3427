from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from packer.reader.process import ReaderProcess


class Holding:
    """A transform with a generator of its own."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)


def drawn(transform: Holding) -> int:
    return int(transform.generator.integers(1 << 60))


@pytest.fixture
def rank_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")


def test_generators_are_seeded_once(rank_3: None) -> None:
    process, transform, untouched = ReaderProcess(), Holding(), Holding()
    assert process.enter((transform, None)) == 3
    first = drawn(transform)
    assert first != drawn(untouched)
    again = Holding()
    process.enter((again,))
    assert drawn(again) == drawn(Holding())  # it was set up before


def test_assigned_transforms_are_seeded_once(rank_3: None) -> None:
    process, late = ReaderProcess(), Holding()
    process.enter(())
    process.note(late)
    process.enter((late,))
    second = copy.deepcopy(late)
    assert drawn(late) != drawn(Holding())
    process.enter((second,))
    assert drawn(second) != drawn(Holding())


def test_a_given_rank_is_taken() -> None:
    assert ReaderProcess().enter((), 2) == 2


@pytest.mark.parametrize("how", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_take_the_rank_and_start_anew(
    monkeypatch: pytest.MonkeyPatch, rank_3: None, how: Any
) -> None:
    process = ReaderProcess()
    process.enter(())
    made = how(process)
    monkeypatch.delenv("RANK")
    transform = Holding()
    assert made.enter((transform,)) == 3
    assert drawn(transform) != drawn(Holding())
