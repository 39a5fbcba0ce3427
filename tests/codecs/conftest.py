"""Small pictures for codecs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from packer.types import Pixels


@pytest.fixture(scope="session")
def picture() -> Pixels:
    """Smooth colours, not square, no corner like another: 90 wide, 60 high."""
    x, y = np.linspace(0, 1, 90)[None, :], np.linspace(0, 1, 60)[:, None]
    layers = [255 * x + 0 * y, 255 * y + 0 * x, 255 * (1 - x) * (1 - y)]
    return np.stack(layers, -1).astype(np.uint8)


@pytest.fixture(scope="session")
def save() -> Callable[..., bytes]:
    """(pixels or Pillow's picture, kind, Pillow's settings) → the file's bytes."""

    def save(pixels: Pixels | Image.Image, kind: str, **settings: Any) -> bytes:
        if kind == "avif":  # which Pillow may be built without
            bgr = np.asarray(pixels)[..., ::-1]
            if not cv2.haveImageWriter(".avif"):
                pytest.skip("this OpenCV has no AVIF")
            return bytes(cv2.imencode(".avif", bgr, [cv2.IMWRITE_AVIF_QUALITY, 95])[1])
        image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
        buffer = io.BytesIO()
        image.save(buffer, kind.upper(), **settings)
        return buffer.getvalue()

    return save
