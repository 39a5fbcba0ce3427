"""What batch-level shuffling costs in mixing of classes; a bad order must fail the same measure."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import UsageError
from packer.reader.order.options import SHUFFLES, OrderOptions
from packer.reader.order.quality import Quality, expected_distinct, measure, sufficient_window
from packer.reader.order.schedule import Schedule
from packer.types import Array


def counts_of(samples: int, batch: int) -> Array:
    counts = np.full(-(-samples // batch), batch)
    counts[-1] = samples - batch * (len(counts) - 1)
    return counts


def measured(
    labels: Array, shuffle: str, *, batch: int = 32, size: int = 32, **more: Any
) -> Quality:
    counts = counts_of(len(labels), batch)
    epochs = more.pop("epochs", 4)
    options = OrderOptions(size, shuffle, **more)
    return measure(labels, counts, Schedule(counts, counts, options), epochs)


SORTED = np.repeat(np.arange(100), 100)
SHUFFLED = np.random.default_rng(0).permutation(SORTED)


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(lambda c: sum(c) >= 1),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_the_expectation_is_that_of_all_draws(counts: list[int], data: st.DataObject) -> None:
    """Counted over every way of drawing."""
    samples = np.repeat(np.arange(len(counts)), counts).tolist()
    size = data.draw(st.integers(1, min(len(samples), 5)))
    draws = [len(set(draw)) for draw in combinations(samples, size)]
    assert expected_distinct(np.array(counts), size) == pytest.approx(sum(draws) / len(draws))


def test_the_expectation_for_imagenet() -> None:
    """Of many large classes: as if drawn with replacement, 1000 (1 - 0.999^256)."""
    found = expected_distinct(np.full(1000, 1281), 256)
    assert found == pytest.approx(1000 * (1 - math.pow(0.999, 256)), rel=2e-4)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_pack_in_random_order_mixes_whatever_the_shuffle(shuffle: str) -> None:
    quality = measured(SHUFFLED, shuffle)
    assert quality.mixes
    assert quality.ratio == pytest.approx(1, abs=0.01)


def test_a_pack_sorted_by_class_fails_the_measure() -> None:
    """The test of the measure."""
    for shuffle in ("none", "batch", "window"):
        quality = measured(SORTED, shuffle, window=4)
        assert not quality.mixes
        assert quality.ratio < 0.6
    assert measured(SORTED, "full").mixes


@pytest.mark.parametrize("labels", [SORTED, SHUFFLED])
@pytest.mark.parametrize(("window", "size"), [(2, 32), (4, 32), (16, 32), (16, 100), (8, 512)])
def test_samples_of_a_batch_meet_as_the_window_predicts(
    labels: Array, window: int, size: int
) -> None:
    """At most: lanes keep a batch's samples further apart than chance within the window would."""
    quality = measured(labels, "window", window=window, size=size, epochs=6)
    assert quality.again_expected is not None
    for found, expected in (
        (quality.together, quality.together_expected),
        (quality.again, quality.again_expected),
    ):
        assert 0.5 * expected <= found <= 1.1 * expected
    assert quality.together > 1.5 * quality.permutation  # or it says nothing


def test_a_full_shuffle_is_a_permutation() -> None:
    quality = measured(SORTED, "full", epochs=6)
    assert quality.together == pytest.approx(quality.permutation, rel=0.1)
    assert quality.again == pytest.approx(quality.permutation, rel=0.1)
    assert quality.again_expected == pytest.approx(quality.permutation, rel=0.01)
    assert abs(quality.correlation) < 5 / math.sqrt(len(SORTED))


def test_no_shuffle_is_the_same_every_time() -> None:
    quality = measured(SHUFFLED, "none")
    assert quality.together == pytest.approx(9984 / 10000, abs=0.002)
    assert quality.again == 1
    assert quality.together_expected == 1
    assert quality.again_expected is None
    assert quality.correlation == pytest.approx(1)


def test_counted_by_hand() -> None:
    """Two batches of two, mini-batches of two, in order."""
    labels = np.array([0, 1, 1, 1])
    quality = measured(labels, "none", batch=2, size=2)
    assert (quality.distinct, quality.together, quality.mini_batches) == (1.5, 1, 8)
    assert quality.distinct_expected == pytest.approx(1.5)  # of 6 pairs 3 hold both classes
    assert quality.permutation == pytest.approx(1 / 3)


def test_the_window_that_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of(len(SORTED), 32)
    window = sufficient_window(SORTED, counts, counts, OrderOptions(32, window=4))
    assert window is not None
    assert window > 16
    assert measured(SORTED, "window", window=window).mixes
    assert not measured(SORTED, "window", window=window // 2, epochs=2).mixes
    # None of those that may be held in memory.
    large = np.full(len(counts), 40_000_000)
    assert sufficient_window(SORTED, counts, large, OrderOptions(32, window=4)) is None


def test_unlabelled_samples_and_batches_of_one() -> None:
    labels = np.where(np.arange(100) % 2, SHUFFLED[:100], -1)
    assert measured(labels, "window", batch=1, size=10).together == 0
    assert measured(np.full(100, -1), "window", size=10).ratio == 1


@pytest.mark.parametrize("more", [{"size": 1}, {"size": 101}, {"epochs": 1}])
def test_too_little_to_measure_is_refused(more: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        measured(SHUFFLED[:100], "window", **({"size": 10} | more))
