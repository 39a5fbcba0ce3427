"""Tensors as plain bytes, to send them between processes. torch itself would put each tensor into
shared memory of its own and send a file descriptor, of which a process has few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from packer.types import Array


@dataclass(frozen=True)
class Packed:
    """A tensor.

    Attributes:
        values: uint8, its bytes in the order of its memory.
        dtype: Its dtype.
        shape: Its sizes, in the order of its memory.
        axes: For each of these sizes, the dimension of the tensor that has it.
    """

    values: Array
    dtype: torch.dtype
    shape: tuple[int, ...]
    axes: tuple[int, ...]


def pack(value: Any) -> Any:
    """Return a column with its tensors packed."""
    if isinstance(value, list):
        return [pack(entry) for entry in value]
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    strides: tuple[int, ...] = value.stride()
    axes = tuple(sorted(range(value.ndim), key=strides.__getitem__, reverse=True))
    dense = value.detach().permute(axes).contiguous()
    values = dense.reshape(-1).view(torch.uint8).numpy()
    return Packed(values, value.dtype, tuple(dense.shape), axes)


def unpack(value: Any) -> Any:
    """Return a packed column as it was."""
    if isinstance(value, list):
        return [unpack(entry) for entry in value]
    if not isinstance(value, Packed):
        return value
    flat = torch.from_numpy(value.values).view(value.dtype)
    places = [value.axes.index(axis) for axis in range(len(value.axes))]
    return flat.reshape(value.shape).permute(places)
