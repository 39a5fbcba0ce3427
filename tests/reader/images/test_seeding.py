from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch

from packer.reader.images import seeding
from packer.reader.order import ranks


class Noise:
    """Holds one generator of each kind, seeded where it is made, and draws from the global ones."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(1)
        self.legacy = np.random.RandomState(1)
        self.python = random.Random(1)
        self.torch = torch.Generator()
        self.torch.manual_seed(1)

    def held(self) -> tuple[Any, ...]:
        return (
            float(self.generator.random()),
            float(self.legacy.random_sample()),
            self.python.random(),
            float(torch.rand((), generator=self.torch)),
        )


def global_numbers() -> tuple[float, ...]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def in_worker(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """What DataLoader does in a new worker process of a job whose ranks are all seeded alike."""
    monkeypatch.setattr(ranks, "worker", lambda: (number, 4))
    torch.manual_seed(1000 + number)
    random.seed(1000 + number)
    np.random.seed(1000 + number)


def streams(monkeypatch: pytest.MonkeyPatch, wrap: Any) -> list[tuple[Any, ...]]:
    made = Noise()
    found = []
    for rank in range(2):
        for number in range(4):
            noise = copy.deepcopy(made)
            in_worker(monkeypatch, number)
            seeding.separate([None, wrap(noise)], rank)
            found.append(noise.held() + global_numbers())
    return found


def test_no_two_streams_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker drew the same random numbers: random, numpy, torch and stored generators, 4
    workers, 2 ranks.
    """
    found = streams(monkeypatch, lambda noise: noise)
    for column in zip(*found, strict=True):
        assert len(set(column)) == 8
    assert streams(monkeypatch, lambda noise: noise) == found  # and reproducible


def test_generators_in_a_list_of_transforms_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compose:
        def __init__(self, transforms: list[object]) -> None:
            self.transforms = transforms

    found = streams(monkeypatch, lambda noise: Compose([Compose([noise])]))
    assert len(set(found)) == 8
    assert len({numbers[:4] for numbers in found}) == 8


def test_a_generator_that_is_shared_is_seeded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    first, second, alone = Noise(), Noise(), Noise()
    first.generator = second.generator = generator
    in_worker(monkeypatch, 0)
    seeding.separate([first, second], 0)
    shared = first.generator.random()
    in_worker(monkeypatch, 0)
    seeding.separate([alone], 0)
    assert shared == alone.generator.random()


def test_the_training_process_keeps_its_global_streams() -> None:
    """On rank 0 it keeps everything, elsewhere what transforms hold is told apart."""
    found = []
    for rank in range(3):
        noise = Noise()
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        seeding.separate([noise], rank)
        found.append((noise.held(), global_numbers()))
    assert found[0][0] == Noise().held()
    assert len({held for held, _ in found}) == 3
    assert len({numbers for _, numbers in found}) == 1


def test_rank_0_in_a_worker_keeps_what_dataloader_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    in_worker(monkeypatch, 2)
    expected = global_numbers()
    in_worker(monkeypatch, 2)
    seeding.separate([Noise()], 0)
    assert global_numbers() == expected
