"""Sizes of stored pictures."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import ImageError
from packer.imaging.geometry import geometry
from packer.settings.options import RESIZE_MODES, ImageOptions

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
            geometry(width, height, _options("short", side))
        return
    expected = (side, new_long) if width <= height else (new_long, side)
    assert geometry(width, height, _options("short", side)).size == expected


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
