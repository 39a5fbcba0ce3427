from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from packer.imaging.orient import turn, turn_box
from packer.types import Pixels


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turns_as_pillow_does(orientation: int, photo: Pixels) -> None:
    image = Image.fromarray(photo)
    image.getexif()[0x0112] = orientation
    expected = np.asarray(ImageOps.exif_transpose(image))
    turned = turn(photo, orientation)
    assert turned.flags.c_contiguous
    assert np.array_equal(turned, expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_turns_with_its_picture(orientation: int) -> None:
    pixels = np.zeros((7, 10, 3), np.uint8)
    pixels[1:4, 2:9] = 255
    left, top, right, bottom = (int(v) for v in turn_box((2, 1, 9, 4), 10, 7, orientation))
    turned = turn(pixels, orientation)
    assert turned[top:bottom, left:right].min() == 255
    assert int((turned == 255).sum()) == (bottom - top) * (right - left) * 3


def test_upright_pixels_are_not_copied(photo: Pixels) -> None:
    assert turn(photo, 1) is photo or np.shares_memory(turn(photo, 1), photo)
