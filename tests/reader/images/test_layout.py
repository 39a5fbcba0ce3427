from __future__ import annotations

import numpy as np
import pytest
import torch

from packer.reader.images.decoding import Room
from packer.reader.images.layout import Layout


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("planes", [False, True])
def test_arrays_and_tensors_over_them(dtype: str, planes: bool) -> None:
    layout = Layout.of(Room((3, 6, 8, 3), dtype), planes)
    array = layout.empty()
    assert (array.shape, str(array.dtype)) == (layout.shape, dtype)
    assert array.nbytes == layout.nbytes
    pixels = np.arange(3 * 6 * 8 * 3).reshape(3, 6, 8, 3).astype(dtype)
    array[:] = pixels.transpose(0, 3, 1, 2) if planes else pixels
    tensor = layout.tensor(array[:2])
    assert tensor.data_ptr() == array.ctypes.data
    assert np.array_equal(tensor.permute(0, 2, 3, 1), pixels[:2])
    kind = torch.contiguous_format if planes else torch.channels_last
    assert tensor.is_contiguous(memory_format=kind)
