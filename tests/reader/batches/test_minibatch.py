from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch.utils.data import default_convert

from packer.reader.batches.minibatch import make_mini_batch, mini_batch_type


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
