"""Pictures that look like photographs, drawn here."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from packer.types import Array, Pixels


def _draw_photo(width: int, height: int, seed: int = 0) -> Pixels:
    """Noise whose spectrum falls as 1/f, as that of photographs does, most of it in the
    brightness, over a gradient of colours.
    """
    rng = np.random.default_rng(seed)
    across, down = np.fft.fftfreq(width), np.fft.fftfreq(height)
    distance = np.maximum(np.hypot(across[None, :], down[:, None]), 1 / max(width, height))

    def noise() -> Array:
        spectrum = np.fft.fft2(rng.standard_normal((height, width))) / distance**1.2
        layer: Array = np.fft.ifft2(spectrum).real
        return layer / float(layer.std())

    x, y = np.linspace(-1, 1, width)[None, :], np.linspace(-1, 1, height)[:, None]
    brightness = 128 + 35 * noise() + 25 * y
    colours = [brightness + 6 * noise() + 25 * x * (channel - 1) for channel in range(3)]
    return np.ascontiguousarray(np.stack(colours, -1).clip(0, 255).astype(np.uint8))


def _save(pixels: Pixels | Image.Image, kind: str, **settings: Any) -> bytes:
    if kind == "avif":  # which Pillow may be built without
        bgr = np.asarray(pixels)[..., ::-1]
        if not cv2.haveImageWriter(".avif"):
            pytest.skip("this OpenCV has no AVIF")
        return bytes(cv2.imencode(".avif", bgr, [cv2.IMWRITE_AVIF_QUALITY, 95])[1])
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    buffer = io.BytesIO()
    image.save(buffer, kind.upper(), **settings)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def draw_photo() -> Callable[..., Pixels]:
    """(width, height, seed) → H×W×3 uint8."""
    return _draw_photo


@pytest.fixture(scope="session")
def photo() -> Pixels:
    return _draw_photo(120, 80)


@pytest.fixture(scope="session")
def save() -> Callable[..., bytes]:
    """(pixels or Pillow's picture, kind, Pillow's settings) → the file's bytes."""
    return _save
