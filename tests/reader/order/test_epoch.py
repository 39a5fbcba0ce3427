from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from packer.reader.order.epoch import EpochOrder
from packer.reader.order.options import SHUFFLES, TAILS, OrderOptions
from packer.reader.order.schedule import Schedule
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
        ranks.append([plan.mini_batch(order, step).tolist() for step in range(len(plan))])
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
    """Padding counts samples twice in an evaluation; here each sample counts once."""
    options = OrderOptions(size, shuffle, window, tail="keep", world_size=world)
    ranks = epoch_of(counts, options, 0)
    assert sorted(flat(ranks)) == list(range(int(counts.sum())))
    lengths = [len(steps) for steps in ranks]
    assert max(lengths) - min(lengths) <= 1


@given(COUNTS, SHUFFLE, st.integers(1, 7), st.integers(1, 4), st.sampled_from(["drop", "pad"]))
def test_ranks_have_equal_full_mini_batches(
    counts: Array, shuffle: str, size: int, world: int, tail: str
) -> None:
    """A rank with fewer mini-batches hangs the others; all have equally many."""
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
    """Each worker gave the whole epoch; workers must take the mini-batches in turn, as DataLoader
    collects them.
    """
    plan = schedule(counts, OrderOptions(size, shuffle, 2, tail=tail))
    shares = [list(range(worker, len(plan), workers)) for worker in range(workers)]
    together = [share[turn] for turn in range(len(plan)) for share in shares if turn < len(share)]
    assert together == list(range(len(plan)))
    # Each worker walks its own steps with an order of its own.
    reference = plan.order(3)
    for share in shares:
        order = plan.order(3)
        for step in share:
            expected = plan.mini_batch(reference, step).tolist()
            assert plan.mini_batch(order, step).tolist() == expected


@given(COUNTS, st.integers(1, 8), st.integers(0, 3))
def test_a_window_mixes_few_batches(counts: Array, window: int, epoch: int) -> None:
    """At most so many as there are lanes, and those that two lanes share at their ends."""
    order = EpochOrder(counts, OrderOptions(1, "window", window), epoch)
    total = int(counts.sum())
    batch_of = np.repeat(np.arange(len(counts)), counts)[order.take(0, total)]
    assert order.lanes == max(1, min(window, np.count_nonzero(counts)))
    needs = order.needs(0, 1)
    for batch in np.flatnonzero(counts):
        (found,) = np.nonzero(batch_of == batch)
        assert needs.whole[batch]
        assert (needs.first[batch], needs.last[batch]) == (found[0], found[-1])
    for position in range(total):
        held = (needs.first <= position) & (position <= needs.last)
        assert np.count_nonzero(held) <= 2 * window


@pytest.mark.parametrize("batches", [1, 7, 16, 47, 64])
def test_mini_batches_draw_on_every_lane_alike(batches: int) -> None:
    counts = np.full(batches, 32)
    order = EpochOrder(counts, OrderOptions(64, "window", 16), 0)
    lanes = min(16, batches)
    for start in range(0, len(order) - 63, 64):
        found = order.take(start, start + 64) // 32
        # One more at the seam between two batches of a lane, or where lanes share what is left.
        assert lanes - 1 <= len(set(found.tolist())) <= 2 * lanes
        assert np.bincount(found).max() <= -(-64 // lanes) * 2


def test_every_batch_is_in_one_round() -> None:
    for batches in (1, 15, 16, 31, 33, 160):
        order = EpochOrder(np.full(batches, 4), OrderOptions(1, "window", 16), 3)
        rounds = [order.batches(number) for number in range(order.windows)]
        assert sorted(np.concatenate(rounds).tolist()) == list(range(batches))
        assert all(len(found) == order.lanes for found in rounds[:-1])


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
    """Source order is 0, 1, 2, …, 10, not 0, 1, 10, 100 as for keys sorted as text."""
    counts = np.array([128, 0, 128, 5])
    assert EpochOrder(counts, OrderOptions(1, "none"), 7).take(0, 261).tolist() == list(range(261))


def test_batch_keeps_batches_in_one_stretch() -> None:
    """All but the first, in whose middle the epoch begins and ends."""
    order = EpochOrder(np.array([4, 4, 4, 4]), OrderOptions(1, "batch"), 0)
    sequence = order.take(0, 16)
    first = order.batches(0)[0]
    turned = np.flatnonzero(sequence // 4 == first)
    assert set(np.diff(turned).tolist()) <= {1, 13}
    others = sequence[sequence // 4 != first].reshape(3, 4)
    assert (np.diff(others) == 1).all()
    assert (np.diff(sequence[turned]) % 4 == 1).all()


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    SHUFFLE,
    TAIL,
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_over_epochs_every_rank_sees_every_sample(
    values: list[int], shuffle: str, tail: str, size: int, world: int
) -> None:
    """No tail that is never reached; and no stripe: nothing that a rank never gets, shuffled."""
    counts = np.array(values)
    options = OrderOptions(size, shuffle, 4, tail=tail, world_size=world)
    total = int(counts.sum())
    # Ranks take neighbouring lanes of a mini-batch. If one lane is larger than a rank's share, the
    # rank in the middle always reads that lane; packs have on-disk batches of one size.
    assume(shuffle != "window" or counts.max() * world <= total)
    if not len(schedule(counts, options)):
        return
    seen: list[set[int]] = [set() for _ in range(world)]
    for epoch in range(3 if shuffle == "none" else 400):
        for rank, mini_batches in enumerate(epoch_of(counts, options, epoch)):
            seen[rank].update(sample for samples in mini_batches for sample in samples)
        together = set().union(*seen)
        done = together if shuffle == "none" or tail == "keep" else set.intersection(*seen)
        if len(done) == total:
            return
    raise AssertionError((total, [len(some) for some in seen]))


@given(COUNTS, SHUFFLE, st.sampled_from(["drop", "pad", "keep"]), st.data())
def test_an_epoch_goes_on_from_anywhere(
    counts: Array, shuffle: str, tail: str, data: st.DataObject
) -> None:
    """A resumed epoch must neither repeat nor skip. Mini-batch size and ranks change twice: both
    parts together hold each sample once but for less than one global mini-batch; at the same
    stride they are the unbroken run.
    """
    total, seen, start, stride = int(counts.sum()), [], 0, 1
    for _ in range(3):
        size, world = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
        options = OrderOptions(size, shuffle, 3, tail=tail, world_size=world)
        plan = schedule(counts, options)
        steps, stride = plan.steps(start), plan.stride
        taken = data.draw(st.integers(0, steps))
        for rank in range(world):
            plan = schedule(counts, replace(options, rank=rank))
            order = plan.order(1)
            for step in range(min(taken, plan.steps(start))):
                seen += plan.mini_batch(order, step, start).tolist()
        start = min(start + taken * stride, total)
    options = OrderOptions(stride, shuffle, 3, tail=tail)
    plan = schedule(counts, options)
    order = plan.order(1)
    assert len(seen) >= start
    assert set(seen) >= set(order.take(0, start).tolist())
    rest = [plan.mini_batch(order, step, start).tolist() for step in range(plan.steps(start))]
    seen += [sample for samples in rest for sample in samples]
    if tail == "keep":
        assert sorted(seen) == list(range(total))
    elif tail == "drop":
        assert len(set(seen)) == len(seen) > total - stride
    else:
        assert set(seen) == set(range(total))
    if start % stride == 0:
        whole = [plan.mini_batch(order, step).tolist() for step in range(len(plan))]
        assert whole[start // stride :] == rest


@pytest.mark.parametrize("world", [*range(1, 17), 24, 32, 64])
@pytest.mark.parametrize("size", [100, 128, 512, 7])
@pytest.mark.parametrize("last", [128, 37])
def test_ranks_share_out_the_batches(world: int, size: int, last: int) -> None:
    """What each rank reads on a node of its own: whole batches and, of others, samples."""
    rng = np.random.default_rng(0)
    counts = np.concatenate((rng.integers(120, 129, 400), [last]))  # a few skipped, as in life
    batch_of = np.repeat(np.arange(len(counts)), counts)
    for rank in {0, world // 2, world - 1}:
        options = OrderOptions(size, "window", 16, rank=rank, world_size=world)
        plan = schedule(counts, options)
        order = plan.order(0)
        samples = [plan.mini_batch(order, step) for step in range(len(plan))]
        needed = np.concatenate(samples) if samples else np.zeros(0, np.int64)
        whole = order.needs(rank, world).whole
        read = counts[whole].sum() + np.count_nonzero(~whole[batch_of[needed]])
        power = world & (world - 1) == 0 and world <= 16
        assert read <= (1.2 if power else 1.5) * counts.sum() / world


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
    """Positions within a window are as good as even, whatever the batch."""
    counts = np.full(4, 16)
    positions = np.zeros((64, 64))
    for epoch in range(400):
        sequence = EpochOrder(counts, OrderOptions(1, "window", 4), epoch).take(0, 64)
        positions[sequence, np.arange(64)] += 1
    # 6.25 expected a cell: chi-square with 63² degrees of freedom, ± 5 standard deviations.
    chi = ((positions - 6.25) ** 2 / 6.25).sum()
    assert abs(chi - 63**2) < 5 * (2 * 63**2) ** 0.5


def test_an_order_written_down_today() -> None:
    """The same seed gives the same epoch in any later version and on any machine."""
    counts = np.array([4, 0, 4, 4, 3, 4, 4, 1])
    order = EpochOrder(counts, OrderOptions(4, window=3, seed=1), 0)
    assert order.take(0, 24).tolist() == [
        *(18, 6, 21, 17, 5, 19, 15, 4, 20, 16, 7, 22, 23, 14, 9, 1, 13, 11, 2, 12, 8, 3, 0, 10)
    ]


@settings(max_examples=20)
@given(st.integers(1, 200), st.integers(1, 8))
def test_ranks_know_their_counts_beforehand(samples: int, world: int) -> None:
    """Exact counts for 499 samples over 1 to 8 ranks, and for any other number."""
    counts = np.full(-(-samples // 16), 16)
    counts[-1] = samples - 16 * (len(counts) - 1)
    options = OrderOptions(8, "none", world_size=world)
    delivered = [sum(len(samples) for samples in steps) for steps in epoch_of(counts, options, 0)]
    known = []
    for rank in range(world):
        plan = schedule(counts, replace(options, rank=rank))
        spans = [plan.span(step) for step in range(len(plan))]
        known.append(sum(min(8, stop - start - 8 * rank) for start, stop in spans))
    assert delivered == known
    assert sum(known) == samples
