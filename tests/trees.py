"""Image folders of drawn pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import simplejpeg


def draw_jpeg(seed: int, width: int, height: int) -> bytes:
    """A small picture that is smooth, coloured and different for every seed."""
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, 256, (2, 2, 3)).astype(float)
    y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    top = corners[0, 0] * (1 - x) + corners[0, 1] * x
    bottom = corners[1, 0] * (1 - x) + corners[1, 1] * x
    pixels = top * (1 - y) + bottom * y + generator.normal(0, 4, (height, width, 1))
    return bytes(simplejpeg.encode_jpeg(pixels.clip(0, 255).astype(np.uint8), quality=85))


def draw_tree(root: Path, classes: int, each: int, size: int) -> Path:
    """Make an image folder: `each` pictures of about `size` pixels a side in each class folder."""
    for label in range(classes):
        folder = root / f"{label + 1:03d}.class{label}"
        folder.mkdir(parents=True)
        for number in range(each):
            seed = label * 1000 + number
            data = draw_jpeg(seed, size + 5 * (number % 4), size + 3 * (number % 5))
            (folder / f"{label + 1:03d}_{number + 1:04d}.jpg").write_bytes(data)
    return root
