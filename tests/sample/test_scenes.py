from __future__ import annotations

import hashlib

import numpy as np
import pytest

from packer.sample.scenes import THINGS, Dice, draw

FIRST_THROWS = [270, 375, 142]
STAR_DIGEST = "6352f58ac47cf0bd"


def test_dice_are_fixed_for_ever() -> None:
    """The raw stream of Philox: the sample is the same with any version of numpy."""
    dice = Dice(b"x")
    assert [dice.integer(0, 1000) for _ in range(3)] == FIRST_THROWS
    assert 0 <= dice.uniform(0, 1) < 1
    assert Dice(b"x").bytes(11).tolist() == Dice(b"x").bytes(16).tolist()[:11]
    assert Dice(b"x").bytes(8).tolist() != Dice(b"y").bytes(8).tolist()


@pytest.mark.parametrize("thing", THINGS)
def test_things_stand_out_from_their_landscape(thing: str) -> None:
    """Each shape is inside in its middle part, outside at its corners, and no two are alike."""
    side = np.linspace(-1.2, 1.2, 97, dtype=np.float32)
    inside = np.broadcast_to(THINGS[thing](side[None, :], side[:, None]), (97, 97)) > 0
    assert 0.05 < inside.mean() < 0.7
    assert not inside[[0, 0, -1, -1], [0, -1, 0, -1]].any()
    others = [THINGS[other] for other in THINGS if other != thing]
    for other in others:
        assert ((other(side[None, :], side[:, None]) > 0) != inside).mean() > 0.02


@pytest.mark.parametrize(("width", "height"), [(150, 100), (77, 203), (1500, 1100)])
def test_pictures_have_the_size_and_texture_of_photos(width: int, height: int) -> None:
    pixels = draw("ball", width, height, Dice(b"picture"))
    assert pixels.shape == (height, width, 3)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert pixels.std() > 20
    steps = np.abs(np.diff(pixels.astype(int), axis=1))
    assert 1 < steps.mean() < 25  # neither flat nor noise


def test_pixels_are_fixed_for_ever() -> None:
    """Element-wise IEEE arithmetic: the same on every machine."""
    digest = hashlib.sha256(draw("star", 120, 90, Dice(b"fixed")).tobytes()).hexdigest()
    assert digest[:16] == STAR_DIGEST
