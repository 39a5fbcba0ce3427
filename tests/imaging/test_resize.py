from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from packer.errors import ImageError
from packer.imaging.resize import geometry, resize, resized_size
from packer.settings.options import FILTERS, RESIZE_MODES, ImageOptions
from packer.types import Pixels

_SIDES = st.integers(1, 5000)


def _options(mode: str, *size: int, **more: object) -> ImageOptions:
    width, height = (size[0], size[-1])
    return dataclasses.replace(ImageOptions(size=(width, height), mode=mode), **more)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(width=_SIDES, height=_SIDES, side=st.integers(1, 1024))
def test_short_is_the_size_that_torchvision_computes(width: int, height: int, side: int) -> None:
    """As _compute_resized_output_size of torchvision.transforms.functional."""
    short, long = sorted((width, height))
    new_long = int(side * long / short)
    if new_long > 65_535:
        with pytest.raises(ImageError):
            resized_size(width, height, _options("short", side))
        return
    expected = (side, new_long) if width <= height else (new_long, side)
    assert resized_size(width, height, _options("short", side)) == expected


@settings(max_examples=200, deadline=None)
@given(width=_SIDES, height=_SIDES, wide=st.integers(1, 600), high=st.integers(1, 600))
def test_every_mode_keeps_its_word(width: int, height: int, wide: int, high: int) -> None:
    long = geometry(width, height, _options("long", wide)).size
    assert max(long) == wide
    assert geometry(width, height, _options("exact", wide, high)).size == (wide, high)
    crop = geometry(width, height, _options("crop", wide, high))
    assert crop.size == (wide, high)
    assert crop.scaled[0] >= wide
    assert crop.scaled[1] >= high
    assert wide in crop.scaled[:1] or high in crop.scaled[1:]
    pad = geometry(width, height, _options("pad", wide, high))
    assert pad.size == (wide, high)
    assert pad.scaled[0] == wide or pad.scaled[1] == high
    assert 1 <= pad.scaled[0] <= wide
    assert 1 <= pad.scaled[1] <= high


@settings(max_examples=100, deadline=None)
@given(width=_SIDES, height=_SIDES, mode=st.sampled_from(RESIZE_MODES), side=st.integers(1, 600))
def test_no_upscale_never_enlarges(width: int, height: int, mode: str, side: int) -> None:
    plan = geometry(width, height, _options(mode, side, upscale=False))
    assert plan.scaled[0] <= width
    assert plan.scaled[1] <= height
    if mode in ("short", "long") and min(width, height) <= side and max(width, height) <= side:
        assert plan.size == (width, height)


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("size", [(1, 2000), (2000, 1), (3, 900), (1, 1)])
def test_a_thin_picture_keeps_both_sides(mode: str, size: tuple[int, int]) -> None:
    """A thin picture got a side of 0 pixels; each must be ≥ 1, too long results are refused."""
    pixels = np.full((size[1], size[0], 3), 77, np.uint8)
    options = _options(mode, 256)
    if mode == "short" and size != (1, 1):
        with pytest.raises(ImageError, match="would become") as caught:
            resize(pixels, options)
        assert caught.value.reason == "bad-size"
        return
    resized = resize(pixels, options)
    assert min(resized.shape[:2]) >= 1
    assert resized.shape[1::-1] == resized_size(*size, options)
    assert 77 in resized


def test_width_and_height_are_not_swapped(photo: Pixels) -> None:
    """400 x 300 becomes 300 rows of 400, and the picture is not transposed."""
    for mode in ("exact", "crop", "pad"):
        resized = resize(photo, _options(mode, 400, 300))
        assert resized.shape == (300, 400, 3)
    marked = np.zeros((80, 120, 3), np.uint8)
    marked[:20, 100:] = 255
    exact = resize(marked, _options("exact", 400, 300))
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
    difference = np.abs(resize(pixels, options).astype(int) - np.asarray(image)).max()
    assert difference <= (1 if name != "nearest" else 0)


def test_a_checkerboard_becomes_gray() -> None:
    """Without antialiasing it would be black or white."""
    board = (np.indices((2048, 2048)).sum(0) % 2 * 255).astype(np.uint8)
    resized = resize(np.repeat(board[..., None], 3, -1), _options("short", 256))
    assert resized.shape == (256, 256, 3)
    assert resized.std() < 5
    assert 120 < resized.mean() < 135


def test_a_zone_plate_shows_no_rings() -> None:
    """Detail finer than the result's pixels must become grey, not rings."""
    axis = np.linspace(-1, 1, 1024)
    radius = axis[None] ** 2 + axis[:, None] ** 2
    plate = (127.5 + 127.5 * np.cos(np.pi * 512 * radius)).astype(np.uint8)
    resized = resize(np.repeat(plate[..., None], 3, -1), _options("short", 128)).astype(float)
    fine = np.hypot(*np.meshgrid(np.linspace(-1, 1, 128), np.linspace(-1, 1, 128))) > 0.4
    assert resized[fine].std() < 12


def test_padding_is_the_background(photo: Pixels) -> None:
    padded = resize(photo, _options("pad", 90, background=(9, 8, 7)))
    assert (padded[:15] == (9, 8, 7)).all()
    assert (padded[75:] == (9, 8, 7)).all()
    assert padded[15:75].std() > 5


def test_what_fits_already_is_not_touched(photo: Pixels) -> None:
    assert resize(photo, ImageOptions()) is photo
    assert resize(photo, _options("short", 80)) is photo
    assert resize(photo, _options("pad", 120, 80)) is photo


@pytest.mark.parametrize("mode", RESIZE_MODES)
@pytest.mark.parametrize("filter_name", FILTERS)
def test_a_fourth_byte_changes_nothing(photo: Pixels, mode: str, filter_name: str) -> None:
    options = _options(mode, 37, 29, filter=filter_name, background=(9, 8, 7))
    if mode in ("short", "long"):
        options = _options(mode, 37, filter=filter_name)
    garbage = np.random.default_rng(1).integers(0, 256, (*photo.shape[:2], 1), np.uint8)
    four = resize(np.concatenate([photo, garbage], 2), options)
    assert np.array_equal(four[..., :3], resize(photo, options))
