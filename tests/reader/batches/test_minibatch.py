from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import default_convert

from packer.reader.batches.minibatch import MiniBatches, make_mini_batch, mini_batch_type
from packer.reader.order.walk import Walk


def test_is_a_tuple_with_names() -> None:
    images, labels = torch.zeros(2, 3), torch.ones(2)
    batch: Any = make_mini_batch(("image", "label"), (images, labels))
    assert tuple in type(batch).__mro__
    assert batch == (images, labels)
    assert batch.image is images
    assert batch[1] is batch.label is labels
    assert type(batch) is mini_batch_type(("image", "label"))


def test_names_that_no_attribute_can_have() -> None:
    batch = make_mini_batch(("class", "image"), (1, 2))
    assert batch == (1, 2)
    assert batch.image == 2


def test_pickles_and_copies() -> None:
    batch = make_mini_batch(("image", "key"), (3, ["a"]))
    for other in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert type(other) is type(batch)
        assert other == batch


def test_torch_keeps_the_type() -> None:
    """Pinning turned batch classes into dicts or lists; torch rebuilds named tuples as such."""
    batch = make_mini_batch(("image", "key"), (torch.zeros(2), ["a", "b"]))
    converted: Any = default_convert(batch)  # type: ignore[no-untyped-call]
    assert type(converted) is type(batch)
    assert converted.key == ["a", "b"]


def columns(count: int) -> Iterator[dict[str, Any]]:
    return ({"label": torch.tensor([number])} for number in range(count))


def test_what_was_returned_is_counted() -> None:
    walk = Walk(epoch=3, start=20, step=1, workers=2)
    loop = MiniBatches(columns(2), dict, walk)
    assert [int(next(loop)["label"]) for _ in range(2)] == [0, 1]
    assert (walk.step, walk.ended) == (5, False)
    with pytest.raises(StopIteration):
        next(loop)
    assert (walk.step, walk.ended) == (5, True)
    assert len(list(MiniBatches(columns(3), dict))) == 3


def test_the_iterator_holds_no_mini_batch() -> None:
    loop = MiniBatches(columns(2), dict)
    label = weakref.ref(next(loop)["label"])
    assert label() is None
