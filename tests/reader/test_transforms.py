from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import UsageError
from packer.reader.images.steps import Crop, Flip, Scale, apply_steps
from packer.reader.order.hashing import Draws
from packer.reader.transforms import (
    BuiltIn,
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    draw_steps,
    global_draws,
)
from packer.types import Pixels

SIDE = st.integers(1, 300)


def picture(height: int, width: int) -> Pixels:
    return np.random.default_rng(height * 1000 + width).integers(
        0, 256, (height, width, 3), np.uint8
    )


@given(SIDE, SIDE, st.integers())
def test_random_crops_are_as_asked(height: int, width: int, seed: int) -> None:
    crop, scale = draw_steps([RandomResizedCrop((20, 30))], (height, width), Draws(seed))
    assert isinstance(crop, Crop)
    assert scale == Scale(20, 30)
    assert 0 <= crop.top <= crop.top + crop.height <= height
    assert 0 <= crop.left <= crop.left + crop.width <= width
    assert crop.height >= 1
    assert crop.width >= 1
    if min(height, width) >= 100 and max(height, width) < 1.3 * min(height, width):
        # Rounding to whole pixels apart.
        assert 0.07 < crop.height * crop.width / (height * width) <= 1
        assert 3 / 4 * 0.9 < crop.width / crop.height < 4 / 3 * 1.1


def test_random_crops_spread_over_the_picture() -> None:
    """Areas even over scale, log aspect ratios even over ratio, as torchvision draws them."""
    crops = [
        draw_steps([RandomResizedCrop(8, scale=(0.1, 0.3))], (400, 400), Draws(seed))[0]
        for seed in range(2000)
    ]
    boxes = np.array([(c.top, c.left, c.height, c.width) for c in crops if isinstance(c, Crop)])
    areas = boxes[:, 2] * boxes[:, 3] / 160_000
    ratios = np.log(boxes[:, 3] / boxes[:, 2])
    # Means of even distributions, within 5 standard errors.
    assert abs(areas.mean() - 0.2) < 5 * 0.2 / 12**0.5 / 2000**0.5
    width = 2 * np.log(4 / 3)
    assert abs(ratios.mean()) < 5 * width / 12**0.5 / 2000**0.5
    for place, side in ((0, 2), (1, 3)):
        room = boxes[:, place] / (400 - boxes[:, side])
        assert abs(room.mean() - 0.5) < 5 / 12**0.5 / 2000**0.5


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        # Nothing within the ratios fits into scale (1, 1): the central part does.
        ((100, 1000), (0, 433, 100, 133)),
        ((1000, 100), (433, 0, 133, 100)),
        ((100, 110), (0, 0, 100, 110)),
        ((1, 1000), (0, 499, 1, 1)),
    ],
)
def test_thin_pictures_are_cropped_in_the_middle(
    shape: tuple[int, int], box: tuple[int, ...]
) -> None:
    always = RandomResizedCrop(8, scale=(1.5, 1.5))
    crop = draw_steps([always], shape, Draws(0))[0]
    assert crop == Crop(*box)


@pytest.mark.parametrize(
    ("size", "shape", "expected"),
    [
        # As torchvision.transforms.functional.resize gives them.
        (256, (375, 500), (256, 341)),
        (256, (500, 375), (341, 256)),
        (256, (256, 256), (256, 256)),
        (256, (100, 333), (256, 852)),
        ((20, 30), (375, 500), (20, 30)),
        (5, (1, 3), (5, 15)),
    ],
)
def test_resize_sizes(size: Any, shape: tuple[int, int], expected: tuple[int, int]) -> None:
    assert Resize(size)(picture(*shape)).shape == (*expected, 3)


@pytest.mark.parametrize(
    ("size", "shape", "top", "left"),
    [
        (224, (256, 341), 16, 58),  # round half to even, as Python and torchvision
        (224, (224, 224), 0, 0),
        ((3, 5), (4, 10), 0, 2),
        ((3, 5), (6, 10), 2, 2),
    ],
)
def test_center_crop_cuts_the_middle(
    size: Any, shape: tuple[int, int], top: int, left: int
) -> None:
    pixels = picture(*shape)
    out = CenterCrop(size)(pixels)
    height, width = out.shape[:2]
    assert np.array_equal(out, pixels[top : top + height, left : left + width])


def test_center_crop_pads_small_pictures_with_black() -> None:
    pixels = np.maximum(picture(3, 8), 1)
    out = CenterCrop((6, 4))(pixels)
    assert out.shape == (6, 4, 3)
    assert np.array_equal(out[1:4], pixels[:, 2:6])  # the odd row goes below, as in torchvision
    assert out[0].max() == out[4:].max() == 0


def test_flip_mirrors_left_and_right() -> None:
    pixels = picture(4, 5)
    assert np.array_equal(RandomHorizontalFlip(1)(pixels), pixels[:, ::-1])
    assert RandomHorizontalFlip(0)(pixels) is pixels
    flips = [draw_steps([RandomHorizontalFlip()], (4, 5), Draws(n)) == [Flip()] for n in range(999)]
    assert 420 < sum(flips) < 580


def test_normalize_is_to_tensor_and_normalize() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    pixels = picture(4, 5)
    expected = (torch.from_numpy(pixels).float() / 255 - torch.tensor(mean)) / torch.tensor(std)
    out = Normalize(mean, std)(pixels)
    assert out.dtype == np.float32
    assert np.allclose(out, expected.numpy(), atol=2e-6)


@given(SIDE, SIDE, st.integers(0, 99))
def test_steps_are_known_without_the_pixels(height: int, width: int, seed: int) -> None:
    """What a decoder needs to know before it decodes."""
    chain = [Resize(40), RandomResizedCrop(24), CenterCrop(20), RandomHorizontalFlip()]
    steps = draw_steps(chain, (height, width), Draws(seed))
    pixels = picture(height, width)
    before, shape = pixels.copy(), (height, width)
    for step in steps:
        shape = step.shape(shape)
    out = apply_steps(pixels, steps)
    assert out.shape[:2] == shape == (20, 20)
    assert np.array_equal(pixels, before)
    one_by_one, draws = pixels, Draws(seed)
    for transform in chain:
        one_by_one = transform(one_by_one, draws)
    assert np.array_equal(out, one_by_one)


def test_alone_they_follow_the_global_generator_of_torch() -> None:
    pixels, crop = picture(40, 40), RandomResizedCrop(8)
    torch.manual_seed(5)
    first = [crop(pixels) for _ in range(3)]
    torch.manual_seed(5)
    again = [crop(pixels) for _ in range(3)]
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1])


def test_ranks_that_are_seeded_alike_draw_differently() -> None:
    """Ranks with the same seed must not draw the same random numbers."""
    seen = set()
    for rank in range(4):
        torch.manual_seed(5)
        seen.add(global_draws(rank).bits())
    assert len(seen) == 4


def test_without_torch_they_follow_python() -> None:
    script = (
        "import random, sys; from packer.reader.transforms import global_draws; seen = []\n"
        "for _ in range(2): random.seed(3); seen.append(global_draws().bits())\n"
        "assert 'torch' not in sys.modules; print(seen)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    first, second = json.loads(done.stdout)
    assert first == second


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomResizedCrop(0),
        lambda: RandomResizedCrop(8, scale=(0.5, 0.1)),
        lambda: RandomResizedCrop(8, ratio=(0, 1)),
        lambda: Resize((1, 2, 3)),
        lambda: CenterCrop(-1),
        lambda: RandomHorizontalFlip(1.5),
        lambda: Normalize((0, 0, 0), (1, 0, 1)),
        lambda: Normalize((0,), (1,)),
        lambda: Resize(8)(np.zeros((4, 4), np.uint8)),
        lambda: Resize(8)(np.zeros((4, 4, 3), np.float32)),
    ],
)
def test_what_cannot_be_is_refused(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


@pytest.mark.parametrize(
    ("chain", "before", "expected"),
    [
        ([], None, None),
        ([], (7, 9), (7, 9)),
        ([RandomHorizontalFlip(), Normalize((0, 0, 0), (1, 1, 1))], (7, 9), (7, 9)),
        ([Resize(14)], None, None),
        ([Resize(14)], (7, 9), (14, 18)),
        ([Resize((5, 6))], None, (5, 6)),
        ([RandomResizedCrop((5, 6)), Resize(10)], None, (10, 12)),
        ([Resize(14), CenterCrop(8), RandomHorizontalFlip()], None, (8, 8)),
    ],
)
def test_the_size_of_all_pictures_is_known_where_it_is_the_same(
    chain: Any, before: Any, expected: Any
) -> None:
    shape = before
    for transform in chain:
        shape = transform.fixed_shape(shape)
    assert shape == expected
    if expected is not None:
        pixels = picture(*(before or (31, 47)))
        for transform in chain:
            pixels = transform(pixels, Draws(3))
        assert pixels.shape[:2] == expected


def test_they_say_what_they_are() -> None:
    assert repr(CenterCrop(4)) == "CenterCrop(size=(4, 4))"
    assert isinstance(CenterCrop(4), BuiltIn)
