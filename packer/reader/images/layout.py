"""How the pictures of one mini-batch lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from packer.reader.images.decoding import Room
from packer.types import Array


@dataclass(frozen=True)
class Layout:
    """Memory layout of a mini-batch's pictures, all of one size.

    Attributes:
        count: Largest number of pictures.
        height: Height of each picture, in pixels.
        width: Width of each picture, in pixels.
        dtype: "uint8" or "float32".
        planes: Whether each picture is 3×H×W, else H×W×3 (channels-last).
    """

    count: int
    height: int
    width: int
    dtype: str
    planes: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of an array that holds all pictures."""
        if self.planes:
            return self.count, 3, self.height, self.width
        return self.count, self.height, self.width, 3

    @property
    def nbytes(self) -> int:
        """Size of all pictures in bytes."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @classmethod
    def of(cls, room: Room, planes: bool) -> Layout:
        """The layout of pictures for which a decoder has returned this room."""
        count, height, width, _ = room.shape
        return cls(count, height, width, room.dtype, planes)

    def empty(self) -> Array:
        """A new array of this shape and dtype, not initialised."""
        return np.empty(self.shape, self.dtype)

    def tensor(self, array: Array) -> torch.Tensor:
        """View an array of pictures as a tensor N×3×H×W over the same memory."""
        return as_tensor(array, self.planes)


def as_tensor(array: Array, planes: bool) -> torch.Tensor:
    """View pictures, N×3×H×W if `planes`, else N×H×W×3, as a tensor N×3×H×W."""
    tensor = torch.from_numpy(array)
    return tensor if planes else tensor.permute(0, 3, 1, 2)
