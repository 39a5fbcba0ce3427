"""Mini-batches of an epoch: see also test_epoch.py, whose properties hold for both."""

from __future__ import annotations

import numpy as np
import pytest

from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule


def test_large_batches_make_the_window_smaller_on_every_rank_alike() -> None:
    counts, sizes = np.full(8, 4), np.array([90, 10, 10, 100, 10, 10, 10, 10], "<i8")
    plans = [
        Schedule(counts, sizes, OrderOptions(2, window_bytes=700, rank=rank, world_size=3))
        for rank in range(3)
    ]
    assert [plan.options.window for plan in plans] == [2] * 3  # 3 would fit, but is no power of two
    tiny = Schedule(counts, sizes, OrderOptions(2, window_bytes=5))
    assert tiny.options.window == 1
    assert Schedule(counts, sizes, OrderOptions(2)).options.window == 16


@pytest.mark.parametrize(
    ("tail", "steps", "span", "ended"),
    [("drop", [3, 3], (16, 24), 19), ("pad", [4, 4], (24, 32), 25), ("keep", [4, 3], (24, 26), 26)],
)
def test_steps_and_spans(tail: str, steps: list[int], span: tuple[int, int], ended: int) -> None:
    """26 samples, 2 ranks, mini-batches of 4."""
    counts = np.array([10, 16])
    plans = [
        Schedule(counts, counts, OrderOptions(4, tail=tail, rank=rank, world_size=2))
        for rank in range(2)
    ]
    assert [len(plan) for plan in plans] == steps
    assert [plan.steps(8) for plan in plans] == [count - 1 for count in steps]
    assert [plan.steps(40) for plan in plans] == [0, 0]
    assert plans[0].global_steps(8, 4) == (4 if tail == "drop" else 5)
    assert plans[0].span(steps[0] - 1) == span
    assert not plans[0].ended(ended - 1) and plans[0].ended(ended + 1)
