from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.imaging.native import cutting
from packer.imaging.native.cutting import cut_all
from packer.imaging.native.region import Region
from packer.types import Array

needs_extension = pytest.mark.skipif(not cutting.NATIVE.is_built, reason="built without a compiler")


def pictures_of(count: int, height: int, width: int) -> Array:
    pictures: Array = np.random.default_rng(0).integers(0, 256, (count, height, width, 3), np.uint8)
    return pictures


def bytes_of(pictures: Array) -> list[memoryview | None]:
    return [memoryview(picture.tobytes()) for picture in pictures]


@needs_extension
@given(st.data())
def test_as_slices_of_arrays(data: st.DataObject) -> None:
    count, height, width = (data.draw(st.integers(1, most)) for most in (4, 30, 30))
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    rows = data.draw(st.integers(1, height - top))
    columns = data.draw(st.integers(1, width - left))
    pictures = pictures_of(count, height, width)
    out = np.zeros((count + 1, rows, columns, 3), np.uint8)
    region = Region(top, left, rows, columns)
    assert cut_all(bytes_of(pictures), (width, height), region, out[:count])
    assert np.array_equal(out[:count], pictures[:, top : top + rows, left : left + columns])
    assert not out[count].any()


@needs_extension
@pytest.mark.parametrize("columns", [*range(100, 118), 120])
def test_large_ones_too_and_nothing_beside(columns: int) -> None:
    """They are written past the caches, wherever their rows begin."""
    pictures = pictures_of(2, 140, 120)
    expected = pictures[:, 5:135, :columns]
    for start in range(17):
        memory = np.full(expected.size + 40, 77, np.uint8)
        out = memory[start : start + expected.size].reshape(expected.shape)
        assert cut_all(bytes_of(pictures), (120, 140), Region(5, 0, 130, columns), out)
        assert np.array_equal(out, expected)
        assert (memory[:start] == 77).all() and (memory[start + expected.size :] == 77).all()


@needs_extension
@pytest.mark.parametrize("odd", [None, memoryview(bytes(10)), memoryview(bytes(9 * 8 * 3 + 1))])
def test_nothing_is_copied_if_one_cannot_be(odd: memoryview | None) -> None:
    payloads = bytes_of(pictures_of(3, 9, 8))
    payloads[2] = odd
    out = np.zeros((3, 2, 2, 3), np.uint8)
    assert not cut_all(payloads, (8, 9), Region(0, 0, 2, 2), out)
    assert not out.any()


@needs_extension
@pytest.mark.parametrize(
    ("region", "shape"),
    [
        (Region(0, 0, 2, 2), (3, 2, 2, 3)),  # more places than pictures
        (Region(0, 0, 2, 2), (2, 2, 2, 4)),
        (Region(8, 0, 2, 2), (2, 2, 2, 3)),
        (Region(0, 7, 2, 2), (2, 2, 2, 3)),
        (Region(-1, 0, 2, 2), (2, 2, 2, 3)),
        (Region(2**62, 2**62, 2, 2), (2, 2, 2, 3)),
        (Region(0, 0, 10, 9), (2, 10, 9, 3)),
    ],
)
def test_rectangles_and_room_that_cannot_be(region: Region, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no such rectangle"):
        cut_all(bytes_of(pictures_of(2, 9, 8)), (8, 9), region, np.zeros(shape, np.uint8))


@needs_extension
def test_memory_that_cannot_be_written_to() -> None:
    out = np.zeros((2, 2, 2, 3), np.uint8)
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        cut_all(bytes_of(pictures_of(2, 9, 8)), (8, 9), Region(0, 0, 2, 2), out)
    with pytest.raises((ValueError, BufferError)):
        wide = np.zeros((2, 2, 4, 3), np.uint8)[:, :, ::2]
        cut_all(bytes_of(pictures_of(2, 9, 8)), (8, 9), Region(0, 0, 2, 2), wide)


def test_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting.NATIVE, "module", None)
    out = np.zeros((2, 2, 2, 3), np.uint8)
    assert not cut_all(bytes_of(pictures_of(2, 9, 8)), (8, 9), Region(0, 0, 2, 2), out)
    assert not cutting.NATIVE.is_built
