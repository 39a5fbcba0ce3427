from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.reader.images.steps import (
    Crop,
    Flip,
    Scale,
    Shape,
    Standardise,
    Step,
    apply_steps,
    write_steps,
)
from packer.reader.order.hashing import Draws
from packer.types import Pixels

NORMAL = Standardise((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def picture(height: int, width: int) -> Pixels:
    return np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Shape, list[Step]]:
    """A picture's size, and steps that fit it, crops beyond its border among them."""
    start = shape = (draw(st.integers(1, 40)), draw(st.integers(1, 40)))
    steps: list[Step] = []
    for kind in draw(st.lists(st.sampled_from("csf"), max_size=4)):
        height, width = draw(st.integers(1, 40)), draw(st.integers(1, 40))
        top, left = (draw(st.integers(-3, side - 1)) for side in shape)
        made: dict[str, Step] = {
            "c": Crop(top, left, height, width),
            "s": Scale(height, width),
            "f": Flip(),
        }
        steps.append(made[kind])
        shape = steps[-1].shape(shape)
    if draw(st.booleans()):
        steps.append(NORMAL)
    return start, steps


@given(chains())
def test_writing_is_applying(chain: tuple[Shape, list[Step]]) -> None:
    shape, steps = chain
    pixels = picture(*shape)
    pixels.flags.writeable = False
    expected = apply_steps(pixels, steps)
    places = np.full((3, *expected.shape), 7, expected.dtype)
    write_steps(pixels, steps, places[1])
    assert np.array_equal(places[1], expected)
    assert (places[0] == 7).all()
    assert (places[2] == 7).all()
    apart = np.zeros((*expected.shape[:2], 6), expected.dtype)[..., ::2]
    write_steps(pixels, steps, apart)
    assert np.array_equal(apart, expected)


@pytest.mark.parametrize(
    "steps", [[], [Flip()], [Scale(4, 6)], [Scale(5, 5), Crop(0, 0, 4, 6), Flip()], [NORMAL]]
)
def test_room_of_another_size_is_refused(steps: list[Step]) -> None:
    """Above all no broadcasting of one pixel or row over the whole picture."""
    for shape in ((6, 4, 3), (7, 7, 3), (4, 6, 1), (4, 6), (1, 4, 6, 3)):
        with pytest.raises(ValueError, match="room for"):
            write_steps(picture(1, 1), steps, np.zeros(shape, np.uint8))


@given(st.integers(1, 9), st.integers(1, 9), st.integers())
def test_crops_know_whether_they_are_inside(height: int, width: int, seed: int) -> None:
    draws = Draws(seed)
    top, left = draws.integer(7) - 3, draws.integer(7) - 3
    crop = Crop(top, left, 1 + draws.integer(9), 1 + draws.integer(9))
    canvas = np.zeros((40, 40), bool)
    canvas[10 : 10 + height, 10 : 10 + width] = True
    cut = canvas[10 + top :, 10 + left :][: crop.height, : crop.width]
    assert crop.within((height, width)) == cut.all()
