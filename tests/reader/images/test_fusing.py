from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.imaging.native.region import Region
from packer.reader.images.fusing import fuse
from packer.reader.images.steps import Crop, Flip, Scale, Shape, Standardise, Step, apply_steps
from packer.reader.order.hashing import Draws
from packer.reader.transforms import (
    CenterCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    draw_steps,
)

NORMAL = Standardise((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))


@st.composite
def chains(draw: st.DrawFn) -> tuple[Shape, list[Step]]:
    """A picture's size and any steps, most of them crops within it."""
    start = shape = (draw(st.integers(1, 50)), draw(st.integers(1, 50)))
    steps: list[Step] = []
    for kind in draw(st.lists(st.sampled_from("ccfso="), max_size=5)):
        top, left = (draw(st.integers(0, side - 1)) for side in shape)
        height, width = draw(st.integers(1, shape[0] - top)), draw(st.integers(1, shape[1] - left))
        step: Step = Crop(top, left, height, width)
        if kind == "f":
            step = Flip()
        elif kind == "=":
            step = Scale(*shape)
        elif kind == "s":
            step = Scale(draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.booleans()))
        elif kind == "o":  # over the border
            step = Crop(top - 3, left - 2, height + 9, width + 9)
        steps.append(step)
        shape = step.shape(shape)
    if draw(st.booleans()):
        steps.append(NORMAL)
    return start, steps


@given(chains())
def test_nothing_changes_but_what_is_decoded(chain: tuple[Shape, list[Step]]) -> None:
    shape, steps = chain
    pixels = np.random.default_rng(3).integers(0, 256, (*shape, 3), np.uint8)
    fused = fuse(steps, shape)
    out = apply_steps(fused.region.cut(pixels), fused.steps)
    assert np.array_equal(out, apply_steps(pixels, steps))
    left = fused.region.height, fused.region.width
    assert not any(isinstance(step, Crop) and step.within(left) for step in fused.steps[:1])


@pytest.mark.parametrize(
    ("steps", "region", "rest"),
    [
        ([], Region(0, 0, 30, 40), []),
        ([Crop(1, 2, 20, 10), Scale(5, 5), Flip()], Region(1, 2, 20, 10), [Scale(5, 5, True)]),
        ([Scale(30, 40), Crop(3, 4, 8, 9), Flip()], Region(3, 4, 8, 9), [Flip()]),
        ([Flip(), Crop(0, 0, 30, 10)], Region(0, 30, 30, 10), [Flip()]),
        ([Flip(), Flip(), Crop(0, 0, 30, 10)], Region(0, 0, 30, 10), []),
        ([Crop(5, 5, 20, 20), Crop(1, 2, 3, 4)], Region(6, 7, 3, 4), []),
        ([Scale(8, 8), Flip(), Flip(), NORMAL], Region(0, 0, 30, 40), [Scale(8, 8), NORMAL]),
        ([Scale(8, 8), Crop(1, 1, 2, 2)], Region(0, 0, 30, 40), [Scale(8, 8), Crop(1, 1, 2, 2)]),
    ],
)
def test_crops_are_the_decoders_and_flips_the_resizers(
    steps: list[Step], region: Region, rest: list[Step]
) -> None:
    fused = fuse(steps, (30, 40), (1, 2, 4, 8))
    assert (fused.region, fused.steps) == (region, rest)


def test_only_fast_decoding_is_reduced_and_only_to_twice_the_target() -> None:
    steps: list[Step] = [Crop(101, 203, 800, 900), Scale(100, 100)]
    assert fuse(steps, (1200, 1600), (1, 2, 4, 8)).region.divisor == 1
    fused = fuse(steps, (1200, 1600), (1, 2, 4, 8), fast=True)
    assert fused.region == Region(25, 51, 200, 225, 4, fast=True)
    assert fuse(steps, (1200, 1600), (1,), fast=True).region.divisor == 1
    assert fuse([steps[0], NORMAL], (1200, 1600), (1, 2, 4, 8), fast=True).region.divisor == 1
    almost: list[Step] = [Crop(0, 0, 799, 900), Scale(100, 100)]
    assert fuse(almost, (1200, 1600), (1, 2, 4, 8), fast=True).region.divisor == 2


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 300), st.integers())
def test_reduced_regions_lie_within_the_reduced_picture(
    height: int, width: int, size: int, seed: int
) -> None:
    chain = [RandomResizedCrop(size), RandomHorizontalFlip()]
    steps = draw_steps(chain, (height, width), Draws(seed))
    crop = steps[0]
    assert isinstance(crop, Crop)
    region = fuse(steps, (height, width), (1, 2, 4, 8), fast=True).region
    divisor = region.divisor
    assert 0 <= region.top <= region.top + region.height <= -(-height // divisor)
    assert 0 <= region.left <= region.left + region.width <= -(-width // divisor)
    assert abs(region.top * divisor - crop.top) <= divisor / 2
    assert abs(region.height * divisor - crop.height) <= divisor
    if divisor > 1:
        assert min(region.height, region.width) >= 2 * size - 1


def test_the_usual_chains() -> None:
    fused = fuse(draw_steps([Resize(256), CenterCrop(224)], (256, 341), Draws(0)), (256, 341))
    assert (fused.region, fused.steps) == (Region(16, 58, 224, 224), [])
