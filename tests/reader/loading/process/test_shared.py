from __future__ import annotations

import os

import numpy as np
import pytest

from packer.reader.images.layout import Layout
from packer.reader.loading.process.shared import SharedSheets, mapped
from packer.reader.sharedmem import anonymous_file

pytestmark = pytest.mark.slow

LAYOUT = Layout(4, 6, 8, "float32")


@pytest.mark.parametrize("memfd", [True, False])
def test_both_sides_see_the_same(memfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")
    descriptor = anonymous_file(LAYOUT.nbytes)
    one, other = mapped(descriptor, LAYOUT), mapped(descriptor, LAYOUT)
    os.close(descriptor)
    one[2, 3] = 5
    assert (other[2, 3] == 5).all()
    assert other.sum() == 5 * 8 * 3


def test_segments_are_used_again_and_dropped() -> None:
    sheets = SharedSheets(LAYOUT, 2)
    first = sheets.take()
    first.array[:] = 3
    tensor = first.tensor(2)
    number = first.segment.number
    del first
    assert sheets.take().segment.number != number
    del tensor
    assert sheets.take().segment.number == number
    tensors = [sheets.take().tensor(1) for _ in range(5)]
    del tensors
    assert len(sheets.dropped()) == 3
    assert sheets.dropped() == []


def test_descriptors_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    sheets = SharedSheets(LAYOUT, 1)
    segments = [sheets.take() for _ in range(4)]
    segments[0].segment.close_descriptor()
    segments[0].segment.close_descriptor()
    array = segments[1].array
    del segments, sheets
    assert np.array_equal(array, np.zeros(LAYOUT.shape))  # the memory itself lives on
    del array
    assert len(os.listdir("/proc/self/fd")) == before
