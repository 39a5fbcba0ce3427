from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageOps

from packer.sample.special import encode_cmyk, encode_gray, with_orientation
from packer.types import Pixels


def stripes() -> Pixels:
    """White, black, red, blue, 16 pixels each."""
    colours = np.array([(255, 255, 255), (0, 0, 0), (250, 10, 10), (20, 30, 200)], np.uint8)
    return np.broadcast_to(np.repeat(colours, 16, axis=0), (32, 64, 3)).copy()


def test_cmyk_is_inverted_with_adobes_marker() -> None:
    """A reader that honours the marker must see white as white."""
    data = encode_cmyk(stripes(), 95)
    assert b"\xff\xee\x00\x0eAdobe" in data[:200]
    image = Image.open(io.BytesIO(data))
    assert image.mode == "CMYK"
    assert np.abs(np.asarray(image.convert("RGB")).astype(int) - stripes()).mean() < 6
    # The coded values themselves are inverted: the white stripe is 255, "no ink", in all planes.
    raw = simplejpeg.decode_jpeg(data, colorspace="CMYK")
    assert raw[16, 8].min() > 250
    assert raw[16, 24, 3] < 140  # half of the black is in the black plate


def test_gray_has_one_component() -> None:
    data = encode_gray(stripes()[:, :, 0], 95)
    assert simplejpeg.decode_jpeg_header(data)[2] in ("Gray", "GRAY")
    image = Image.open(io.BytesIO(data))
    assert image.mode == "L"
    assert np.abs(np.asarray(image).astype(int) - stripes()[:, :, 0]).mean() < 4


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_read_back(orientation: int) -> None:
    plain = encode_gray(stripes()[:, :, 0], 95)
    image = Image.open(io.BytesIO(with_orientation(plain, orientation)))
    assert image.getexif() == {0x0112: orientation}
    turned = ImageOps.exif_transpose(image)
    assert turned.size == ((32, 64) if orientation > 4 else (64, 32))
