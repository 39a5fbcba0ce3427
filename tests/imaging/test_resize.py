from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageOps

from packer.errors import ImageError
from packer.imaging.decode import Decoded
from packer.imaging.geometry import geometry
from packer.imaging.heads.head import Head
from packer.imaging.plan import plan_picture
from packer.imaging.resize import resize
from packer.settings.options import FILTERS, RESIZE_MODES, ImageOptions
from packer.types import Pixels


def _options(mode: str, *size: int, **more: object) -> ImageOptions:
    width, height = (size[0], size[-1])
    return dataclasses.replace(ImageOptions(size=(width, height), mode=mode), **more)  # type: ignore[arg-type]


def _resize(pixels: Pixels, options: ImageOptions) -> Pixels:
    picture = Decoded.of(pixels)
    return resize(picture, plan_picture(Head("", picture.width, picture.height), options))


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("size", [(1, 2000), (2000, 1), (3, 900), (1, 1)])
def test_a_thin_picture_keeps_both_sides(mode: str, size: tuple[int, int]) -> None:
    """A thin picture got a side of 0 pixels; each must be ≥ 1, too long results are refused."""
    pixels = np.full((size[1], size[0], 3), 77, np.uint8)
    options = _options(mode, 256)
    if mode == "short" and size != (1, 1):
        with pytest.raises(ImageError, match="would become") as caught:
            _resize(pixels, options)
        assert caught.value.reason == "bad-size"
        return
    resized = _resize(pixels, options)
    assert min(resized.shape[:2]) >= 1
    assert resized.shape[1::-1] == geometry(*size, options).size
    assert 77 in resized


def test_width_and_height_are_not_swapped(photo: Pixels) -> None:
    """400 x 300 becomes 300 rows of 400, and the picture is not transposed."""
    for mode in ("exact", "crop", "pad"):
        resized = _resize(photo, _options(mode, 400, 300))
        assert resized.shape == (300, 400, 3)
    marked = np.zeros((80, 120, 3), np.uint8)
    marked[:20, 100:] = 255
    exact = _resize(marked, _options("exact", 400, 300))
    assert exact[:40, 360:].min() > 200
    assert exact[260:, :40].max() < 50


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("mode", RESIZE_MODES)
def test_equals_pillows_filter_of_the_same_name(
    name: str, mode: str, draw_photo: Callable[..., Pixels]
) -> None:
    """Antialiased as Pillow: within ±2 levels, the cut and the padded modes too."""
    pixels = draw_photo(233, 157, 4)
    options = _options(mode, 64, filter=name)
    plan = geometry(233, 157, options)
    image = Image.fromarray(pixels).resize(plan.scaled, Image.Resampling[name.upper()])
    if mode == "crop":
        image = image.crop((*plan.cut, plan.cut[0] + 64, plan.cut[1] + 64))
    if mode == "pad":
        image = ImageOps.pad(image, (64, 64), color=(255, 255, 255))
    difference = np.abs(_resize(pixels, options).astype(int) - np.asarray(image)).max()
    assert difference <= (1 if name != "nearest" else 0)


def test_a_checkerboard_becomes_gray() -> None:
    """Without antialiasing it would be black or white."""
    board = (np.indices((2048, 2048)).sum(0) % 2 * 255).astype(np.uint8)
    resized = _resize(np.repeat(board[..., None], 3, -1), _options("short", 256))
    assert resized.shape == (256, 256, 3)
    assert resized.std() < 5
    assert 120 < resized.mean() < 135


def test_a_zone_plate_shows_no_rings() -> None:
    """Detail finer than the result's pixels must become grey, not rings."""
    axis = np.linspace(-1, 1, 1024)
    radius = axis[None] ** 2 + axis[:, None] ** 2
    plate = (127.5 + 127.5 * np.cos(np.pi * 512 * radius)).astype(np.uint8)
    resized = _resize(np.repeat(plate[..., None], 3, -1), _options("short", 128)).astype(float)
    fine = np.hypot(*np.meshgrid(np.linspace(-1, 1, 128), np.linspace(-1, 1, 128))) > 0.4
    assert resized[fine].std() < 12


def test_padding_is_the_background(photo: Pixels) -> None:
    padded = _resize(photo, _options("pad", 90, background=(9, 8, 7)))
    assert (padded[:15] == (9, 8, 7)).all()
    assert (padded[75:] == (9, 8, 7)).all()
    assert padded[15:75].std() > 5


def test_what_fits_already_is_not_touched(photo: Pixels) -> None:
    assert _resize(photo, ImageOptions()) is photo
    assert _resize(photo, _options("short", 80)) is photo
    assert _resize(photo, _options("pad", 120, 80)) is photo


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("filter_name", FILTERS)
def test_a_fourth_byte_changes_nothing(photo: Pixels, mode: str, filter_name: str) -> None:
    options = _options(mode, 37, 29, filter=filter_name, background=(9, 8, 7))
    if mode in ("short", "long"):
        options = _options(mode, 37, filter=filter_name)
    garbage = np.random.default_rng(1).integers(0, 256, (*photo.shape[:2], 1), np.uint8)
    four = _resize(np.concatenate([photo, garbage], 2), options)
    assert np.array_equal(four[..., :3], _resize(photo, options))
