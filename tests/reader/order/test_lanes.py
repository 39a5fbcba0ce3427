from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.reader.order.lanes import Visits, deal, one_lane
from packer.types import Array

COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=40).map(np.array)


def all_of(visits: Visits) -> list[tuple[int, int]]:
    """(batch, sample of it) of all visits, in the order of positions; checks that none is missing
    or there twice.
    """
    found = {}
    for row in zip(
        visits.batch.tolist(),
        visits.offset.tolist(),
        visits.length.tolist(),
        visits.first.tolist(),
        visits.last.tolist(),
        strict=True,
    ):
        batch, offset, length, first, last = row
        assert last == first + (length - 1) * visits.lanes
        for place in range(length):
            position = first + place * visits.lanes
            assert position not in found
            found[position] = (batch, offset + place)
    assert sorted(found) == list(range(len(found)))
    return [found[position] for position in range(len(found))]


@given(COUNTS, st.integers(1, 17))
def test_every_sample_has_one_position(counts: Array, lanes: int) -> None:
    lanes = min(lanes, len(counts))
    visits, rounds = deal(counts, lanes)
    everything = [(batch, sample) for batch, n in enumerate(counts) for sample in range(n)]
    assert sorted(all_of(visits)) == everything
    dealt = visits.batch < rounds * lanes
    assert (visits.length[dealt] == counts[visits.batch[dealt]]).all()
    assert np.count_nonzero(dealt) == rounds * lanes
    # Sorted by lane and place, as they are searched.
    ladder = visits.lane * 10_000 + visits.start
    assert (np.diff(ladder) > 0).all()


@given(COUNTS, st.data())
def test_one_lane_begins_anywhere(counts: Array, data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, int(counts.sum()) - 1))
    everything = [(batch, sample) for batch, n in enumerate(counts) for sample in range(n)]
    assert all_of(one_lane(counts, turn)) == everything[turn:] + everything[:turn]


@pytest.mark.parametrize("batches", [16, 188, 1000])
@pytest.mark.parametrize("last", [128, 1])
def test_little_is_cut_where_batches_are_of_even_size(batches: int, last: int) -> None:
    counts = np.full(batches, 128)
    counts[batches // 2] = last
    _, rounds = deal(counts, 16)
    assert batches - rounds * 16 < 2 * 16


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 12, 16])
def test_any_positions_in_a_row_are_spread_over_the_lanes(lanes: int) -> None:
    """Of W in a row, one is in each W-th part of the lanes, W a power of two that divides them."""
    visits, _ = deal(np.full(lanes, 4), lanes)
    assert sorted(visits.turn.tolist()) == list(range(lanes))
    row = np.tile(visits.turn, 3)
    for world in (1, 2, 4, 8, 16):
        if lanes % world or lanes & (lanes - 1):
            continue
        for start in range(0, len(row), world):
            parts = row[start : start + world] * world // lanes
            assert sorted(parts.tolist()) == list(range(world))
