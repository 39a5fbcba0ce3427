"""From the pictures of a mini-batch to what the stream yields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from packer.reader.images.decoding import owned
from packer.types import Array


def collate_images(images: Sequence[Any]) -> Any:
    """One tensor if all pictures have one shape, else a list.

    Args:
        images: H×W×3 arrays or PIL images, tensors, bytes, or whatever transforms return.

    Returns:
        For H×W×3 arrays (or PIL images) of one size: a tensor N×3×H×W of their dtype in
        channels-last memory; for several sizes: a list of tensors 3×H×W. For tensors of one shape
        and dtype: the stacked tensor. For anything else: a list.
    """
    arrays = [_as_array(image) for image in images]
    if all(isinstance(array, np.ndarray) for array in arrays):
        return _collate_arrays(arrays)
    if all(isinstance(array, torch.Tensor) for array in arrays) and _alike(arrays):
        return torch.stack(list(arrays))
    return list(images)


def collate_labels(labels: Sequence[Any]) -> Any:
    """One int64 tensor if `target_transform` returned integers, else what DataLoader's own collate
    function makes of its results.
    """
    if all(isinstance(label, int | np.integer) for label in labels):
        return torch.tensor(labels, dtype=torch.int64)
    return torch.utils.data.default_collate(list(labels))


def channels_first(array: Array) -> torch.Tensor:
    """…×H×W×3 → a view …×3×H×W; other shapes stay."""
    tensor = torch.from_numpy(array)
    if array.ndim in (3, 4) and array.shape[-1] == 3:
        return tensor.movedim(-1, -3)
    return tensor


def _as_array(image: Any) -> Any:
    if isinstance(image, np.ndarray | torch.Tensor):
        return image
    # PIL images have numpy's protocol, so PIL need not be imported here.
    return np.array(image) if hasattr(image, "__array_interface__") else image


def _collate_arrays(arrays: Sequence[Array]) -> Any:
    if _alike(arrays):
        return channels_first(np.stack(arrays))
    return [channels_first(owned(array)) for array in arrays]


def _alike(arrays: Sequence[Any]) -> bool:
    first = arrays[0]
    return all(array.shape == first.shape and array.dtype == first.dtype for array in arrays)
