from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import UsageError
from packer.reader.order import SHUFFLES, TAILS, EpochOrder, OrderOptions, Schedule
from packer.types import Array

COUNTS = st.lists(st.integers(0, 9), max_size=30).map(lambda values: np.array(values, "<i4"))
SHUFFLE = st.sampled_from(SHUFFLES)
TAIL = st.sampled_from(TAILS)


def schedule(counts: Array, options: OrderOptions) -> Schedule:
    return Schedule(counts, counts.astype("<i8") * 100, options)


def epoch_of(counts: Array, options: OrderOptions, epoch: int) -> list[list[list[int]]]:
    """All mini-batches of an epoch: [rank][step] → samples."""
    ranks = []
    for rank in range(options.world_size):
        plan = schedule(counts, replace(options, rank=rank))
        order = plan.order(epoch)
        ranks.append([order.take(*plan.bounds(step)).tolist() for step in range(len(plan))])
    return ranks


def flat(ranks: list[list[list[int]]]) -> list[int]:
    """The global sequence: step by step, rank after rank."""
    longest = max(len(steps) for steps in ranks)
    return [
        sample
        for step in range(longest)
        for steps in ranks
        if step < len(steps)
        for sample in steps[step]
    ]


@given(COUNTS, SHUFFLE, st.integers(1, 8), st.integers(0, 5), st.integers(-3, 3))
def test_an_epoch_is_a_permutation(
    counts: Array, shuffle: str, window: int, epoch: int, seed: int
) -> None:
    order = EpochOrder(counts, OrderOptions(1, shuffle, window, seed), epoch)
    total = int(counts.sum())
    assert len(order) == total
    assert sorted(order.take(0, total).tolist()) == list(range(total))


@given(COUNTS, SHUFFLE, st.integers(1, 8), st.integers(1, 7), st.integers(1, 4))
def test_keep_gives_each_sample_once(
    counts: Array, shuffle: str, window: int, size: int, world: int
) -> None:
    """RD07: whole evaluation sets, in which nothing counts twice."""
    options = OrderOptions(size, shuffle, window, tail="keep", world_size=world)
    ranks = epoch_of(counts, options, 0)
    assert sorted(flat(ranks)) == list(range(int(counts.sum())))
    lengths = [len(steps) for steps in ranks]
    assert max(lengths) - min(lengths) <= 1


@given(COUNTS, SHUFFLE, st.integers(1, 7), st.integers(1, 4), st.sampled_from(["drop", "pad"]))
def test_ranks_have_equal_full_mini_batches(
    counts: Array, shuffle: str, size: int, world: int, tail: str
) -> None:
    """TR08: no rank waits for one that has less."""
    total, cut = int(counts.sum()), size * world
    ranks = epoch_of(counts, OrderOptions(size, shuffle, 3, tail=tail, world_size=world), 2)
    steps = total // cut if tail == "drop" else -(-total // cut)
    assert [len(mini_batches) for mini_batches in ranks] == [steps] * world
    assert all(len(samples) == size for mini_batches in ranks for samples in mini_batches)
    # At most one partial global mini-batch is dropped or padded, and nothing else.
    seen = flat(ranks)
    if tail == "drop":
        assert len(set(seen)) == len(seen) > total - cut
    elif total:
        assert set(seen) == set(range(total))
        assert len(seen) < total + cut


@given(COUNTS, SHUFFLE, TAIL, st.sampled_from([(12, 1), (6, 2), (4, 3), (3, 4), (1, 12)]))
def test_ranks_do_not_change_the_sequence(
    counts: Array, shuffle: str, tail: str, cut: tuple[int, int]
) -> None:
    size, world = cut
    one = epoch_of(counts, OrderOptions(12, shuffle, 3, tail=tail), 1)
    several = epoch_of(counts, OrderOptions(size, shuffle, 3, tail=tail, world_size=world), 1)
    assert flat(several) == flat(one)


@given(COUNTS, SHUFFLE, TAIL, st.integers(1, 5), st.integers(1, 6))
def test_workers_do_not_change_the_order(
    counts: Array, shuffle: str, tail: str, size: int, workers: int
) -> None:
    """RD05: workers take the mini-batches in turn, and DataLoader puts them together in turn."""
    plan = schedule(counts, OrderOptions(size, shuffle, 2, tail=tail))
    shares = [list(range(worker, len(plan), workers)) for worker in range(workers)]
    together = [share[turn] for turn in range(len(plan)) for share in shares if turn < len(share)]
    assert together == list(range(len(plan)))
    # Each worker walks its own steps with an order of its own.
    reference = plan.order(3)
    for share in shares:
        order = plan.order(3)
        for step in share:
            bounds = plan.bounds(step)
            assert order.take(*bounds).tolist() == reference.take(*bounds).tolist()


@given(COUNTS, st.integers(1, 8), st.integers(0, 3))
def test_a_window_touches_few_batches(counts: Array, window: int, epoch: int) -> None:
    order = EpochOrder(counts, OrderOptions(1, "window", window), epoch)
    batch_of = np.repeat(np.arange(len(counts)), counts)
    last = -1
    for piece in order.pieces(0, len(order)):
        assert piece.window == last + 1
        last = piece.window
        found = set(batch_of[piece.samples].tolist())
        assert found == set(order.batches(piece.window).tolist())
        assert len(found) <= window
    assert last == order.windows - 1
    sizes = [len(order.batches(number)) for number in range(order.windows)]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(COUNTS, SHUFFLE, st.data())
def test_any_stretch_equals_the_whole(counts: Array, shuffle: str, data: st.DataObject) -> None:
    """What is worked out window by window, from anywhere, is the same sequence."""
    options = OrderOptions(1, shuffle, 3)
    total = int(counts.sum())
    whole = EpochOrder(counts, options, 0).take(0, total).tolist()
    order = EpochOrder(counts, options, 0)
    for _ in range(3):
        start = data.draw(st.integers(0, total))
        stop = data.draw(st.integers(start, total + 5))
        beyond = (whole * 6)[: max(0, stop - total)]
        assert order.take(start, stop).tolist() == whole[start:stop] + beyond


@pytest.mark.parametrize("shuffle", ["batch", "window", "full"])
def test_epochs_and_seeds_differ(shuffle: str) -> None:
    counts = np.full(12, 8)
    orders = {
        tuple(EpochOrder(counts, OrderOptions(1, shuffle, 4, seed), epoch).take(0, 96).tolist())
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16


def test_none_is_the_packed_order() -> None:
    """LM09: source order 0, 1, 2, …, 10, not 0, 1, 10, 100."""
    counts = np.array([128, 0, 128, 5])
    assert EpochOrder(counts, OrderOptions(1, "none"), 7).take(0, 261).tolist() == list(range(261))


def test_batch_keeps_batches_in_one_stretch() -> None:
    counts = np.array([4, 4, 4, 4])
    sequence = EpochOrder(counts, OrderOptions(1, "batch"), 0).take(0, 16).reshape(4, 4)
    assert (sequence // 4 == sequence[:, :1] // 4).all()
    assert (np.diff(sequence[:-1]) == 1).all()


@pytest.mark.parametrize("shuffle", ["batch", "window", "full"])
@pytest.mark.parametrize("counts", [[10], [3, 7], [4, 4, 2], [1] * 10])
@pytest.mark.parametrize("size", [4, 6, 7])
def test_what_the_tail_leaves_out_changes(shuffle: str, counts: list[int], size: int) -> None:
    """Over epochs every sample is seen, in the smallest packs, too."""
    plan = schedule(np.array(counts), OrderOptions(size, shuffle, 16, tail="drop"))
    dropped = [
        frozenset(plan.order(epoch).take(len(plan) * size, 10).tolist()) for epoch in range(60)
    ]
    assert len(set(dropped)) > 1
    assert not frozenset.intersection(*dropped)


def test_the_window_shuffles_all_of_it() -> None:
    """Positions within a window are as good as even."""
    counts = np.full(4, 16)
    positions = np.zeros((64, 64))
    for epoch in range(400):
        sequence = EpochOrder(counts, OrderOptions(1, "window", 4), epoch).take(0, 64)
        positions[sequence, np.arange(64)] += 1
    # 6.25 expected a cell: chi-square with 63² degrees of freedom, ± 5 standard deviations.
    chi = ((positions - 6.25) ** 2 / 6.25).sum()
    assert abs(chi - 63**2) < 5 * (2 * 63**2) ** 0.5


def test_large_batches_make_the_window_smaller_on_every_rank_alike() -> None:
    counts, sizes = np.full(8, 4), np.array([90, 10, 10, 100, 10, 10, 10, 10], "<i8")
    plans = [
        Schedule(counts, sizes, OrderOptions(2, window_bytes=350, rank=rank, world_size=3))
        for rank in range(3)
    ]
    assert [plan.options.window for plan in plans] == [3, 3, 3]
    tiny = Schedule(counts, sizes, OrderOptions(2, window_bytes=5))
    assert tiny.options.window == 1
    assert Schedule(counts, sizes, OrderOptions(2)).options.window == 16


def test_the_default_tail_follows_the_shuffle() -> None:
    assert OrderOptions(2, "none").tail == "keep"
    assert {OrderOptions(2, shuffle).tail for shuffle in ("batch", "window", "full")} == {"drop"}


def test_an_order_written_down_today() -> None:
    """The same seed gives the same epoch in any later version and on any machine."""
    counts = np.array([4, 0, 4, 4, 3, 4, 4, 1])
    order = EpochOrder(counts, OrderOptions(4, window=3, seed=1), 0)
    assert order.take(0, 24).tolist() == [
        *(21, 18, 19, 20, 17, 15, 22, 16, 23, 6, 5, 4, 7, 14, 13, 9, 11, 1, 2, 3, 8, 12, 0, 10)
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"shuffle": "windows"}, "did you mean 'window'"),
        ({"tail": "dropped"}, "did you mean 'drop'"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"window": 0}, "window 0"),
        ({"rank": 2, "world_size": 2}, "rank 2"),
        ({"rank": -1}, "rank -1"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        OrderOptions(**{"batch_size": 1, **values})  # type: ignore[arg-type]


@settings(max_examples=20)
@given(st.integers(1, 200), st.integers(1, 8))
def test_ranks_know_their_counts_beforehand(samples: int, world: int) -> None:
    """RD07: 499 samples over 1..8 ranks, and any other number."""
    counts = np.full(-(-samples // 16), 16)
    counts[-1] = samples - 16 * (len(counts) - 1)
    options = OrderOptions(8, "none", world_size=world)
    delivered = [sum(len(samples) for samples in steps) for steps in epoch_of(counts, options, 0)]
    known = []
    for rank in range(world):
        plan = schedule(counts, replace(options, rank=rank))
        bounds = [plan.bounds(step) for step in range(len(plan))]
        known.append(sum(stop - start for start, stop in bounds))
    assert delivered == known
    assert sum(known) == samples
