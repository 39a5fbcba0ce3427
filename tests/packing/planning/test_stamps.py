import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.packing.planning.stamps import changed_files, encode_stamps
from packer.types import Array


def _columns(count: int) -> list[Array]:
    return [np.arange(count, dtype="<i8") * 1000 + column for column in range(3)]


@given(st.integers(2, 40), st.data())
def test_each_changed_file_is_named(count: int, data: st.DataObject) -> None:
    then = _columns(count)
    now = [column.copy() for column in then]
    places = data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    for place in places:
        column = data.draw(st.integers(0, 2))
        now[column][place] ^= data.draw(st.integers(1, 2**31))
    assert changed_files(encode_stamps(*then), encode_stamps(*now)) == sorted(places)


def test_another_mount_has_other_inodes_and_changes_nothing() -> None:
    sizes, times, inodes = _columns(9)
    stamps = encode_stamps(sizes, times, inodes)
    assert changed_files(stamps, encode_stamps(sizes, times, inodes + 7)) == []
    times[4] += 1
    assert changed_files(stamps, encode_stamps(sizes, times, inodes + 7)) == [4]


@pytest.mark.parametrize("then", ["", "a", "AAAA AAAA", "AAAAAA== AAAA"])
def test_stamps_that_are_none_match_nothing(then: str) -> None:
    assert changed_files(then, encode_stamps(*_columns(3))) == [0, 1, 2]
