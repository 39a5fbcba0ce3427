"""Draw the pictures of the built-in sample: a thing in a landscape, with the texture of a photo.

The same call gives the same pixels on every machine: random numbers are raw ones of Philox, and
the arithmetic is element by element (no matrix products, no sines), which IEEE 754 fixes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from packer.types import Pixels

_Plane = NDArray[np.float32]
_Limit: TypeAlias = "int | tuple[int, int, int]"
#: Limits of the colours of the ground: grass, earth, sand, snow, moss.
_SOILS: tuple[tuple[_Limit, _Limit], ...] = (
    ((30, 80, 20), (90, 150, 60)),
    ((70, 50, 30), (130, 100, 70)),
    ((150, 120, 70), (210, 180, 120)),
    ((150, 160, 170), (200, 205, 215)),
    ((50, 70, 40), (110, 120, 80)),
)
#: Side of the texture tiles in pixels; larger pictures repeat them.
_TILE = 1024
#: The corners of a regular pentagon, (x, y), y downwards, the first on top.
_PENTAGON = (
    (0.0, -1.0),
    (0.951, -0.309),
    (0.588, 0.809),
    (-0.588, 0.809),
    (-0.951, -0.309),
)


class Dice:
    """A stream of random numbers, the same for the same name."""

    def __init__(self, name: bytes) -> None:
        key = int.from_bytes(hashlib.blake2b(name, digest_size=16).digest(), "little")
        self._bits = np.random.Philox(key=key)

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """uint8, evenly spread."""
        raw = self._bits.random_raw(-(-count // 8))
        return np.asarray(raw, "<u8").view(np.uint8)[:count]

    def uniform(self, low: float, high: float) -> float:
        """A number from low to high."""
        return low + (high - low) * (int(self._bits.random_raw()) >> 11) / (1 << 53)

    def integer(self, low: int, high: int) -> int:
        """A whole number from low up to, not including, high."""
        return low + int(self._bits.random_raw()) % (high - low)


def draw(thing: str, width: int, height: int, dice: Dice) -> Pixels:
    """A picture of `thing`, one of `THINGS`."""
    scene = _landscape(width, height, dice)
    _put(scene, THINGS[thing], dice)
    grain = _window(_tiles()["grain"], height, width, dice)
    scene += grain * np.float32(dice.uniform(3, 9))
    np.clip(scene, 0, 255, out=scene)
    return np.ascontiguousarray(scene.astype(np.uint8).transpose(1, 2, 0))


def _landscape(width: int, height: int, dice: Dice) -> _Plane:
    """Sky, clouds, a ridge and the ground before it: 3×H×W, about 0 to 255."""
    down = np.linspace(0, 1, height, dtype=np.float32)[None, :, None]
    zenith, horizon = _colour(dice, (20, 60, 100), (110, 150, 230)), _colour(dice, 160, 250)
    soil = _SOILS[dice.integer(0, len(_SOILS))]
    near, far = _colour(dice, *soil), _colour(dice, *soil) * np.float32(1.2) + 20
    clouds = _window(_tiles()["cloud"], height, width, dice)
    rough = _window(_tiles()["rough"], height, width, dice)
    scene: _Plane = zenith + (horizon - zenith) * down + clouds * np.float32(dice.uniform(15, 60))
    ground = far + (near - far) * down + rough * np.float32(dice.uniform(35, 90))
    hills = _tiles()["cloud"][dice.integer(0, _TILE)]
    across = np.arange(width) * _TILE // max(width, 300)
    ridge = np.float32(dice.uniform(0.4, 0.7)) + np.float32(0.12) * hills[across % _TILE]
    # The edge runs over two pixels.
    mask = np.clip((down - ridge) * np.float32(height / 2), 0, 1)
    ground -= scene
    ground *= mask
    scene += ground
    return scene


def _put(scene: _Plane, shape: Callable[[_Plane, _Plane], _Plane], dice: Dice) -> None:
    """Draw a shape with light from the upper left, and its shadow, into the scene."""
    _, height, width = scene.shape
    radius = min(width, height) * dice.uniform(0.24, 0.42)
    x0 = dice.uniform(0.35, 0.65) * width
    y0 = dice.uniform(0.4, 0.62) * height
    left, right = max(0, int(x0 - 1.3 * radius)), min(width, int(x0 + 1.3 * radius))
    top, bottom = max(0, int(y0 - 1.3 * radius)), min(height, int(y0 + 1.3 * radius))
    x = ((np.arange(left, right, dtype=np.float32) - np.float32(x0)) / np.float32(radius))[None, :]
    y = ((np.arange(top, bottom, dtype=np.float32) - np.float32(y0)) / np.float32(radius))[:, None]
    part = scene[:, top:bottom, left:right]
    shadow = 1 - np.square(x - np.float32(0.15)) - np.square((y - np.float32(0.95)) * 4)
    part *= 1 - np.float32(0.5) * np.clip(shadow, 0, 1)
    # A turn by up to 16 degrees either way, its sine and cosine from the half-angle formulas.
    half = dice.uniform(-0.14, 0.14)
    cosine, sine = (1 - half**2) / (1 + half**2), 2 * half / (1 + half**2)
    turned_x = np.float32(cosine) * x + np.float32(sine) * y
    turned_y = np.float32(cosine) * y - np.float32(sine) * x
    inside = np.clip(shape(turned_x, turned_y) * np.float32(radius / 2), 0, 1)
    light = np.clip(np.float32(0.8) - np.float32(0.35) * x - np.float32(0.4) * y, 0.3, 1.25)
    rough = _window(_tiles()["rough"], bottom - top, right - left, dice)
    light = light + rough * np.float32(dice.uniform(0.05, 0.2))
    part += (_colour(dice, 40, 255) * light - part) * inside


def _colour(dice: Dice, low: _Limit, high: _Limit) -> _Plane:
    """A random RGB colour as 3×1×1, between limits for each part or for all three."""
    lows = low if isinstance(low, tuple) else (low,) * 3
    highs = high if isinstance(high, tuple) else (high,) * 3
    parts = [dice.integer(*limits) for limits in zip(lows, highs, strict=True)]
    return np.array(parts, np.float32)[:, None, None]


def _window(tile: _Plane, height: int, width: int, dice: Dice) -> _Plane:
    """A random part of a tile, mirrored at random."""
    step_y, step_x = 1 - 2 * dice.integer(0, 2), 1 - 2 * dice.integer(0, 2)
    tile = np.tile(tile[::step_y, ::step_x], (-(-height // _TILE), -(-width // _TILE)))
    top = dice.integer(0, tile.shape[0] - height + 1)
    left = dice.integer(0, tile.shape[1] - width + 1)
    return tile[top : top + height, left : left + width]


@cache
def _tiles() -> dict[str, _Plane]:
    """Noise that repeats seamlessly: smooth, rough, and the grain of a sensor; about -1 to 1."""
    dice = Dice(b"packer sample tiles")
    grain = dice.bytes(_TILE * _TILE).reshape(_TILE, _TILE).astype(np.float32)
    return {
        "cloud": _noise(dice, falloff=0.45),
        "rough": _noise(dice, falloff=0.8),
        "grain": grain / np.float32(127.5) - 1,
    }


def _noise(dice: Dice, falloff: float) -> _Plane:
    """Value noise: random values on ever finer grids, each finer one weaker by `falloff`."""
    total = np.zeros((_TILE, _TILE), np.float32)
    weight, weights, cells = 1.0, 0.0, 4
    while cells <= _TILE // 2:
        grid = dice.bytes(cells * cells).reshape(cells, cells).astype(np.float32)
        grid = grid / np.float32(127.5) - 1
        total += np.float32(weight) * _stretch(_stretch(grid).T).T
        weights += weight
        weight *= falloff
        cells *= 2
    return total * np.float32(2.4 / weights)


def _stretch(grid: _Plane) -> _Plane:
    """Rows of a grid, blended smoothly into _TILE rows."""
    cells = len(grid)
    place = np.arange(_TILE, dtype=np.float32) * np.float32(cells / _TILE)
    cell = place.astype(np.int64)
    part = place - cell.astype(np.float32)
    part = (part * part * (3 - 2 * part))[:, None]
    blended: _Plane = grid[cell] * (1 - part) + grid[(cell + 1) % cells] * part
    return blended


# Shapes: from x and y (1×w and h×1, or h×w; y downwards, the shape between -1 and 1) to a number
# that is positive inside and grows about as fast as the distance from the edge.


def _disc(x: _Plane, y: _Plane, x0: float, y0: float, radius: float) -> _Plane:
    square = np.square(x - np.float32(x0)) + np.square(y - np.float32(y0))
    disc: _Plane = np.float32(radius) - np.sqrt(square)
    return disc


def _bar(x: _Plane, y: _Plane, x0: float, y0: float, half: tuple[float, float]) -> _Plane:
    across = np.float32(half[0]) - np.abs(x - np.float32(x0))
    bar: _Plane = np.minimum(across, np.float32(half[1]) - np.abs(y - np.float32(y0)))
    return bar


def _both(*parts: _Plane) -> _Plane:
    """Inside all of the parts."""
    inside: _Plane = reduce(np.minimum, parts)
    return inside


def _either(*parts: _Plane) -> _Plane:
    """Inside any of the parts."""
    inside: _Plane = reduce(np.maximum, parts)
    return inside


def _line(x: _Plane, y: _Plane, dx: float, dy: float, distance: float) -> _Plane:
    """The side of a line that (0, 0) is on: the line is `distance` away in direction (dx, dy)."""
    inside: _Plane = np.float32(distance) - x * np.float32(dx) - y * np.float32(dy)
    return inside


def _ball(x: _Plane, y: _Plane) -> _Plane:
    return _disc(x, y, 0, 0, 0.9)


def _ring(x: _Plane, y: _Plane) -> _Plane:
    return _both(_disc(x, y, 0, 0, 0.92), -_disc(x, y, 0, 0, 0.44))


def _box(x: _Plane, y: _Plane) -> _Plane:
    return _bar(x, y, 0, 0, (0.8, 0.7))


def _tent(x: _Plane, y: _Plane) -> _Plane:
    return _both(_line(x, y, 0, 1, 0.8), _line(np.abs(x), y, 0.8, -0.5, 0.45))


def _star(x: _Plane, y: _Plane) -> _Plane:
    """Inside at least four of the five lines that a pentagram consists of."""
    sides = [_line(x, y, -u, -v, 0.36) for u, v in _PENTAGON]
    inside: _Plane = np.partition(np.stack(sides), 1, axis=0)[1]
    return inside


def _cross(x: _Plane, y: _Plane) -> _Plane:
    return _either(_bar(x, y, 0, 0, (0.3, 0.9)), _bar(x, y, 0, -0.2, (0.75, 0.26)))


def _moon(x: _Plane, y: _Plane) -> _Plane:
    return _both(_disc(x, y, 0, 0, 0.95), -_disc(x, y, 0.45, -0.15, 0.75))


def _heart(x: _Plane, y: _Plane) -> _Plane:
    side = np.abs(x)
    tip = _both(_line(side, y, 0.74, 0.67, 0.64), _line(side, y, 0, -1, 0.12))
    return _either(_disc(side, y, 0.41, -0.3, 0.5), tip)


def _balloon(x: _Plane, y: _Plane) -> _Plane:
    ropes = _bar(np.abs(x), y, 0.13, 0.5, (0.02, 0.3))
    return _either(_disc(x, y, 0, -0.25, 0.7), ropes, _bar(x, y, 0, 0.85, (0.17, 0.12)))


def _leaf(x: _Plane, y: _Plane) -> _Plane:
    blade = _both(_disc(x, y, -0.6, 0, 1.05), _disc(x, y, 0.6, 0, 1.05))
    return _either(blade, _bar(x, y, 0, 0.9, (0.03, 0.25)))


def _house(x: _Plane, y: _Plane) -> _Plane:
    walls = _both(_bar(x, y, 0, 0.4, (0.62, 0.45)), -_bar(x, y, 0.15, 0.6, (0.12, 0.26)))
    roof = _both(_line(x, y, 0, 1, 0.02), _line(np.abs(x), y, 0.7, -0.7, 0.6))
    return _either(walls, roof)


def _flower(x: _Plane, y: _Plane) -> _Plane:
    petals = (_disc(x, y, 0.55 * u, 0.55 * v - 0.1, 0.36) for u, v in _PENTAGON)
    return _either(_disc(x, y, 0, -0.1, 0.34), *petals)


#: What can be drawn, by name.
THINGS: dict[str, Callable[[_Plane, _Plane], _Plane]] = {
    "ball": _ball,
    "ring": _ring,
    "box": _box,
    "tent": _tent,
    "star": _star,
    "cross": _cross,
    "moon": _moon,
    "heart": _heart,
    "balloon": _balloon,
    "leaf": _leaf,
    "house": _house,
    "flower": _flower,
}
