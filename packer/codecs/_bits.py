"""Sizes of coded photographs, for the estimate of how many fit into a shard."""

from __future__ import annotations

from typing import Final

import numpy as np

#: Bits per pixel of a JPEG at 4:2:0 by quality, over photographs resized to 256 pixels.
_JPEG_QUALITY: Final = (1, 50, 75, 90, 95, 100)
_JPEG_BITS: Final = (0.2, 0.8, 1.2, 2.2, 3.2, 6.0)


def photograph_bits(quality: int) -> float:
    """Mean bits per pixel of a photograph as a JPEG of this quality (1 to 100) at 4:2:0."""
    return float(np.interp(quality, _JPEG_QUALITY, _JPEG_BITS))
