"""The built-in transforms: torchvision's names, parameters and geometry, on H×W×3 uint8 arrays.

A transform first draws its parameters, from the picture's size alone (`steps`), then changes
pixels. So the part of the picture that is needed is known before decoding, and only that part is
decoded.

Give them as a list: `transform=[RandomResizedCrop(224), RandomHorizontalFlip()]`. Other callables
may follow them; these are called with what `decode` says (see `packer.reader.PackedDataset`).
"""

from __future__ import annotations

import math
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from packer.errors import UsageError
from packer.reader.images.steps import Crop, Flip, Scale, Shape, Standardise, Step, apply_steps
from packer.reader.order.hashing import Draws, combine
from packer.types import Array, Pixels

__all__ = [
    "BuiltIn",
    "CenterCrop",
    "Crop",
    "Flip",
    "Normalize",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Scale",
    "Standardise",
    "Step",
]


class BuiltIn(ABC):
    """Base of the transforms that are fused with decoding; subclass it for your own.

    Attributes:
        RANDOM: Whether `steps` draws random numbers; if not, it depends on the size alone.
        DTYPE: Type of the pixels afterwards: "uint8" or "float32".
    """

    RANDOM: ClassVar[bool] = True
    DTYPE: ClassVar[str] = "uint8"

    @abstractmethod
    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        """The steps for a picture of this (height, width), with their parameters drawn."""

    def fixed_shape(self, shape: Shape | None) -> Shape | None:
        """(height, width) of all transformed pictures if `shape` is that of all pictures before;
        None: they differ.
        """
        return shape

    def __call__(self, pixels: Pixels, draws: Draws | None = None) -> Array:
        """Transform one picture.

        Args:
            pixels: H×W×3 uint8.
            draws: Source of random parameters; None: torch's generator if torch is loaded, else
                the generator of Python's `random`.

        Returns:
            H×W×3 uint8, or float32 from Normalize.

        Raises:
            UsageError: `pixels` is no such array.
        """
        check_pixels(pixels)
        steps = self.steps((pixels.shape[0], pixels.shape[1]), draws or global_draws())
        return apply_steps(pixels, list(steps))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class RandomResizedCrop(BuiltIn):
    """Cut out a rectangle of random area and aspect ratio and resize it, as torchvision's.

    Args:
        size: Side of the square in pixels, or (height, width).
        scale: Range of the rectangle's area, as fractions of the picture's area (0 to 1).
        ratio: Range of the rectangle's width / height, drawn evenly on a logarithmic scale.

    Raises:
        UsageError: A size is below 1 pixel, or a range is none.
    """

    #: Tries to find a rectangle that fits; then a central one is taken, as in torchvision.
    TRIES = 10

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
    ) -> None:
        self.size = _pair(size)
        self.scale = (float(scale[0]), float(scale[1]))
        self.ratio = (float(ratio[0]), float(ratio[1]))
        if not 0 <= self.scale[0] <= self.scale[1] or not 0 < self.ratio[0] <= self.ratio[1]:
            raise UsageError(f"invalid scale {scale} or ratio {ratio}", "low first, above 0")

    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        yield self._crop(shape, draws)
        yield Scale(*self.size)

    def fixed_shape(self, shape: Shape | None) -> Shape | None:
        return self.size

    def _crop(self, shape: Shape, draws: Draws) -> Crop:
        height, width = shape
        low, high = (math.log(value) for value in self.ratio)
        for _ in range(self.TRIES):
            area = height * width * draws.uniform(*self.scale)
            aspect = math.exp(draws.uniform(low, high))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return Crop(draws.integer(height - h + 1), draws.integer(width - w + 1), h, w)
        aspect = min(max(width / height, self.ratio[0]), self.ratio[1])
        w = min(width, max(1, round(height * aspect)))
        h = min(height, max(1, round(width / aspect)))
        return Crop((height - h) // 2, (width - w) // 2, h, w)


class Resize(BuiltIn):
    """Resize, as torchvision's Resize, always antialiased when shrinking.

    Args:
        size: Length of the shorter side in pixels, with the aspect ratio kept; or (height, width).

    Raises:
        UsageError: A size is below 1 pixel.
    """

    RANDOM = False

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _positive(size) if isinstance(size, int) else _pair(size)

    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        yield Scale(*self._resized(shape))

    def fixed_shape(self, shape: Shape | None) -> Shape | None:
        if shape is not None:
            return self._resized(shape)
        return None if isinstance(self.size, int) else self.size

    def _resized(self, shape: Shape) -> Shape:
        if not isinstance(self.size, int):
            return self.size
        longer = int(self.size * max(shape) / min(shape))  # torchvision cuts, it does not round
        return (self.size, longer) if shape[0] <= shape[1] else (longer, self.size)


class CenterCrop(BuiltIn):
    """Cut out the middle, as torchvision's CenterCrop. Smaller pictures get a black border.

    Args:
        size: Side of the square in pixels, or (height, width).

    Raises:
        UsageError: A size is below 1 pixel.
    """

    RANDOM = False

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _pair(size)

    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        height, width = self.size
        yield Crop(_start(shape[0], height), _start(shape[1], width), height, width)

    def fixed_shape(self, shape: Shape | None) -> Shape | None:
        return self.size


class RandomHorizontalFlip(BuiltIn):
    """Mirror left and right with a probability, as torchvision's RandomHorizontalFlip.

    Args:
        p: The probability, 0 to 1.

    Raises:
        UsageError: `p` is no probability.
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise UsageError(f"invalid p {p}", "a probability, 0 to 1")
        self.p = p

    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        if draws.uniform(0, 1) < self.p:
            yield Flip()


class Normalize(BuiltIn):
    """Make float32 of uint8 pixels: (value / 255 - mean) / std, as torchvision's ToTensor and
    Normalize do, but H×W×3. It comes last.

    Args:
        mean: Three numbers, one for each channel (R, G, B), of values in 0..1.
        std: Three numbers above 0, one for each channel.

    Raises:
        UsageError: There are not three numbers each, or a `std` is not above 0.
    """

    RANDOM = False
    DTYPE = "float32"

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = tuple(float(value) for value in mean)
        self.std = tuple(float(value) for value in std)
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise UsageError(f"invalid mean {mean} or std {std}", "three numbers, std above 0")

    def steps(self, shape: Shape, draws: Draws) -> Iterator[Step]:
        yield Standardise(self.mean, self.std)


def draw_steps(transforms: Sequence[BuiltIn], shape: Shape, draws: Draws) -> list[Step]:
    """All steps of some transforms for a picture of one size, without touching a pixel."""
    steps: list[Step] = []
    for transform in transforms:
        for step in transform.steps(shape, draws):
            steps.append(step)
            shape = step.shape(shape)
    return steps


def global_draws(rank: int = 0) -> Draws:
    """A stream seeded from the process's own generator: torch's if torch is loaded, else that of
    Python's `random`. DataLoader seeds both in each worker; the rank is mixed in here, because most
    scripts seed all ranks alike.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        bits = random.getrandbits(63)
    else:
        bits = int(torch.empty((), dtype=torch.int64).random_())
    return Draws(combine(bits, rank))


def check_pixels(pixels: Any) -> None:
    """Raise UsageError unless `pixels` is H×W×3 uint8."""
    if isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8:
        if pixels.ndim == 3 and pixels.shape[2] == 3:
            return
        kind = f"a {'×'.join(map(str, pixels.shape))} array"
    else:
        kind = f"{getattr(pixels, 'dtype', '')} {type(pixels).__name__}".strip()
    raise UsageError(
        f"built-in transforms take H×W×3 uint8 arrays, not {kind}",
        "put them before other transforms, Normalize last, or use decode='numpy'",
    )


def _start(have: int, want: int) -> int:
    """First row or column of a centred crop, as in torchvision; negative if a border is added."""
    return round((have - want) / 2) if have >= want else -((want - have) // 2)


def _positive(value: int) -> int:
    if value < 1:
        raise UsageError(f"size {value} is out of range", "at least 1 pixel")
    return int(value)


def _pair(size: int | Sequence[int]) -> Shape:
    values = (size, size) if isinstance(size, int) else tuple(size)
    if len(values) != 2:
        raise UsageError(f"invalid size {size!r}", "a number, or (height, width)")
    return _positive(values[0]), _positive(values[1])
