from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from packer.reader import PackedDataset
from packer.reader.batches.fields import Fields
from packer.reader.batches.iterator import MiniBatches
from packer.reader.order.walk import Walk


def columns(count: int) -> Iterator[dict[str, Any]]:
    return ({"label": torch.tensor([number])} for number in range(count))


def test_what_was_returned_is_counted(build_pack: Any) -> None:
    fields = Fields(PackedDataset(build_pack([[4]]).root), ["label"], 0, as_dict=False)
    walk = Walk(epoch=3, start=20, step=1, workers=2)
    loop = MiniBatches(columns(2), fields, walk)
    assert [int(next(loop).label) for _ in range(2)] == [0, 1]
    assert (walk.step, walk.ended) == (5, False)
    with pytest.raises(StopIteration):
        next(loop)
    assert (walk.step, walk.ended) == (5, True)
    assert len(list(MiniBatches(columns(3), fields))) == 3


def test_it_holds_no_mini_batch(build_pack: Any) -> None:
    fields = Fields(PackedDataset(build_pack([[4]]).root), ["label"], 0, as_dict=True)
    loop = MiniBatches(columns(2), fields)
    label = weakref.ref(next(loop)["label"])
    assert label() is None
