from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from packer.reader.loading.process.packed import Packed, pack, unpack

pytestmark = pytest.mark.slow

TENSORS = {
    "contiguous": torch.arange(24.0).reshape(2, 3, 4),
    "channels-last": torch.arange(120).reshape(2, 4, 5, 3).permute(0, 3, 1, 2),
    "a slice": torch.arange(24).reshape(4, 6)[::2, 1:5],
    "a scalar": torch.tensor(3.5),
    "nothing": torch.zeros(0, 3, 4),
    "bool": torch.tensor([True, False, True]),
    "bfloat16": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
    "complex": torch.ones(2, 2, dtype=torch.complex64),
    "one wide": torch.arange(6).reshape(1, 6, 1),
    "needs a gradient": torch.ones(3, requires_grad=True),
}


@pytest.mark.parametrize("kind", list(TENSORS))
def test_tensors_come_back_as_they_were(kind: str) -> None:
    tensor = TENSORS[kind]
    packed = pack(tensor)
    assert isinstance(packed, Packed)
    back = unpack(pickle.loads(pickle.dumps(packed)))
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(back, tensor)
    for layout in (torch.contiguous_format, torch.channels_last):
        if layout == torch.contiguous_format or tensor.ndim == 4:
            dense = tensor.is_contiguous(memory_format=layout)
            assert back.is_contiguous(memory_format=layout) or not dense
    back.fill_(1)  # memory of its own, writable


def test_lists_and_others() -> None:
    column: list[Any] = [torch.ones(2), b"bytes", None, "text"]
    packed = pack(column)
    assert isinstance(packed[0], Packed)
    assert packed[1:] == column[1:]
    assert torch.equal(unpack(packed)[0], column[0])
    assert pack(7) == unpack(7) == 7
