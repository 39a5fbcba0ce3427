"""Pseudo-random numbers that never change between versions: SplitMix64 (Steele, Lea, Flood 2014,
"Fast splittable pseudorandom number generators"), written out here.

numpy's Generator is not used, as the order must be reproducible across machines and years, and
numpy may change its streams between versions (NEP 19).
"""

from __future__ import annotations

import numpy as np

from packer.types import Array

_MASK = (1 << 64) - 1
#: 2^64 / golden ratio, odd: SplitMix64's increment. Its multiples, modulo 2^64, are spread evenly,
#: however many there are.
GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def combine(*numbers: int) -> int:
    """Hash integers of any size and sign, in their order, into one 64-bit number."""
    state = 0
    for number in numbers:
        state = _finish((state + number + GOLDEN) & _MASK)
    return state


def keys(state: int, numbers: Array) -> Array:
    """Return uint64, a hash under `state` of each of `numbers` (integers).

    Sorting by these hashes gives a pseudo-random permutation.
    """
    mixed = numbers.astype(np.uint64) + np.uint64(1)
    mixed *= np.uint64(GOLDEN)
    mixed += np.uint64(state)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_SECOND)
    mixed ^= mixed >> np.uint64(31)
    return mixed


class Draws:
    """A stream of pseudo-random numbers; fast enough to make one for each sample.

    Args:
        seed: Any integer.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Return 64 random bits."""
        self._state = (self._state + GOLDEN) & _MASK
        return _finish(self._state)

    def uniform(self, low: float, high: float) -> float:
        """Return a float in [low, high)."""
        return low + (high - low) * (self.bits() >> 11) * 2.0**-53

    def integer(self, stop: int) -> int:
        """Return an integer in [0, stop); its bias is below stop / 2^64."""
        return (self.bits() * stop) >> 64


def _finish(state: int) -> int:
    state = ((state ^ (state >> 30)) * _FIRST) & _MASK
    state = ((state ^ (state >> 27)) * _SECOND) & _MASK
    return state ^ (state >> 31)
