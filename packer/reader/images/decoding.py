"""From a payload to what the user's code gets: decoded, transformed, an array or a PIL image."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from packer import registry
from packer.codecs import Codec, ManyCodec, load_codec
from packer.errors import DamagedSample, ImageError, UsageError, suggestion
from packer.imaging import memory
from packer.imaging.native.fastresize import mirror
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.pack.opened import Pack
from packer.raised import named
from packer.reader.images.fusing import Fused, fuse
from packer.reader.images.steps import Flip, Scale, Shape, apply_steps, write_steps
from packer.reader.order.hashing import Draws
from packer.reader.transforms import BuiltIn, draw_steps
from packer.types import Array, Field, Pixels

DECODES = ("pil", "numpy", "bytes")
QUALITIES = ("exact", "fast")
IMAGE = "image"
#: Bytes of an array for a mini-batch: 128 pictures of 3,300 x 3,300 pixels. Loaders may pin it.
_MOST_ROOM = 4 << 30
#: Mini-batches that a loader usually holds in memory at a time.
_MINI_BATCHES = 4
#: Looked up for each picture, which asks Python's import system otherwise.
_codec = functools.cache(load_codec)


@functools.cache
def _many_codec(name: str) -> ManyCodec | None:
    codec = load_codec(name)
    return codec if isinstance(codec, ManyCodec) else None


class Room(NamedTuple):
    """An array for pictures.

    Attributes:
        shape: N×H×W×3.
        dtype: "uint8" or "float32".
    """

    shape: tuple[int, int, int, int]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def is_affordable(self) -> bool:
        """Whether memory is asked for before the payloads have proven that they hold so much.

        The size is only what the index says: a few bytes of PNG or WebP may stand for any picture.
        """
        if self.nbytes <= memory.LARGE:
            return True
        return self.nbytes <= _MOST_ROOM and memory.has_room(_MINI_BATCHES * self.nbytes)


class Decoder:
    """Makes pictures of a pack's payloads.

    Args:
        pack: The open pack.
        decode: What transforms and the caller get: "pil": a PIL image; "numpy": H×W×3 uint8;
            "bytes": the coded picture as it is stored.
        transform: One callable or several, applied in turn. Built-in ones at the front work on
            pixels whatever `decode` says, and only what they look at is decoded.
        quality: "exact": as if everything were decoded and then transformed; "fast": JPEGs with
            small deviations.

    Attributes:
        decode: As given.
        quality: As given.
        built_in: The built-in transforms at the front.
        others: The callables behind them.
        random: Whether built-in transforms draw anything.

    Raises:
        UsageError: The pack has no image field, or an argument is invalid.
        MissingDependency: The pack's codec is a plug-in that is not installed.
    """

    def __init__(
        self,
        pack: Pack,
        decode: str,
        transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None,
        quality: str = "exact",
    ) -> None:
        if decode not in DECODES:
            raise UsageError(f"unknown decode {decode!r}", suggestion(decode, DECODES))
        if quality not in QUALITIES:
            raise UsageError(f"unknown decode_quality {quality!r}", suggestion(quality, QUALITIES))
        self._pack = pack
        self._codec = str(_image_field(pack).codec)
        if decode != "bytes":
            registry.require_offered("codecs", self._codec, pack.manifest.libraries)
        self.decode = decode
        self.quality = quality
        self.built_in, self.others = _split(transform)
        transforms = (*self.built_in, *self.others)
        self.random = any(isinstance(entry, BuiltIn) and entry.RANDOM for entry in transforms)
        if decode == "bytes" and self.built_in:
            raise UsageError(
                f"decode='bytes' leaves nothing for {self.built_in[0]!r}", "use decode='numpy'"
            )

    def pixels(self, payload: memoryview | None, sample: int, draws: Draws) -> Array:
        """The picture behind the built-in transforms: H×W×3, uint8 or, after Normalize, float32.

        It may share memory with `payload`: not to be written to.

        Raises:
            DamagedSample: There is no payload, or it cannot be decoded.
        """
        try:
            return self._pixels(payload, sample, draws)
        except BaseException as error:
            raise self._named(error, sample)  # noqa: B904 - the same one, or its cause is

    def write(self, payload: memoryview | None, sample: int, draws: Draws, out: Array) -> None:
        """Write what `pixels` gives into `out`, a place in a mini-batch.

        Args:
            payload: The coded picture.
            sample: Its number.
            draws: Where random parameters come from.
            out: Height×width×3 of the size behind the built-in transforms (`fixed_shape`, if all
                have the same); float32 if Normalize is among them, else uint8.

        Raises:
            DamagedSample: There is no payload, or it cannot be decoded.
            ValueError: `out` has another size.
        """
        try:
            self._write(payload, sample, draws, out)
        except BaseException as error:
            raise self._named(error, sample)  # noqa: B904 - as above

    def write_all(
        self,
        payloads: Sequence[memoryview | None],
        samples: Sequence[int],
        draw: Callable[[int], Draws],
        out: Array,
    ) -> Sequence[int]:
        """`write` several pictures in one call of their codec, where it has one. Raises nothing.

        Args:
            payloads: The coded pictures.
            samples: Their numbers.
            draw: From such a number to where its random parameters come from.
            out: N places in a mini-batch, see `write`.

        Returns:
            Those for which this was not done, counted from 0: `write` them one by one.
        """
        codec = _many_codec(self._codec)
        direct = out.dtype == np.uint8 and out.flags.c_contiguous
        if codec is None or not direct or not self.at_once:
            return range(len(payloads))
        size = out.shape[1], out.shape[2]
        if self._alike:
            pieces = [self._piece(self._shape(samples[0]), draw(samples[0]), size)] * len(samples)
        else:
            pieces = [self._piece(self._shape(sample), draw(sample), size) for sample in samples]
        return codec.decode_pieces(payloads, pieces, out)

    @property
    def at_once(self) -> int:
        """How many pictures `write_all` is best given; 0: none at all."""
        codec = _many_codec(self._codec)
        return 0 if codec is None else codec.at_once(self._alike)

    @property
    def _alike(self) -> bool:
        """Whether the same is done to all pictures."""
        return not self.random and self._one_shape is not None

    def room(self, count: int) -> Room | None:
        """What `write` needs for so many pictures; None where each gets memory of its own: sizes
        differ, transforms of the user's make something else of them, or the array would be larger
        than what is taken on the word of an index.
        """
        shape = None if self.decode == "bytes" or self.others else self.fixed_shape()
        if shape is None:
            return None
        floats = any(transform.DTYPE == "float32" for transform in self.built_in)
        room = Room((count, *shape, 3), "float32" if floats else "uint8")
        return room if room.is_affordable() else None

    def fixed_shape(self) -> Shape | None:
        """(height, width) of all pictures behind the built-in transforms; None if they differ, or
        there are none.
        """
        shape = self._one_shape
        for transform in self.built_in:
            shape = transform.fixed_shape(shape)
        return shape

    def image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        """The picture as the caller asked for it, behind all transforms; raises as `pixels`."""
        try:
            return self._image(payload, sample, draws)
        except BaseException as error:
            raise self._named(error, sample)  # noqa: B904 - as above

    def _named(self, error: BaseException, sample: int) -> BaseException:
        """An error of a transform, with the sample's name; one of a damaged sample has it."""
        if isinstance(error, DamagedSample):
            return error
        return named(error, "a transform", self._pack.describe(sample, IMAGE))

    def _pixels(self, payload: memoryview | None, sample: int, draws: Draws) -> Array:
        shape = self._shape(sample)
        codec, fused = self._fused(shape, draws)
        return apply_steps(self._decode(codec, payload, sample, shape, fused.region), fused.steps)

    def _write(self, payload: memoryview | None, sample: int, draws: Draws, out: Array) -> None:
        shape = self._shape(sample)
        codec, fused = self._fused(shape, draws)
        region, steps = fused.region, fused.steps
        direct = out.dtype == np.uint8 and out.flags.c_contiguous
        direct = direct and out.shape == (region.height, region.width, 3)
        if direct and all(isinstance(step, Flip) for step in steps):
            self._decode(codec, payload, sample, shape, region, out)
            if len(steps) % 2:
                mirror(out)
        else:
            write_steps(self._decode(codec, payload, sample, shape, region), steps, out)

    def _image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        image: Any
        if self.decode == "bytes":
            image = bytes(self._there(payload, sample))
        else:
            image = owned(self._pixels(payload, sample, draws))
            if self.decode == "pil" and image.dtype == np.uint8:
                from packer.imaging.pil import from_pixels

                image = from_pixels(image)
        for transform in self.others:
            if isinstance(transform, BuiltIn):
                image = transform(image, draws)
            else:
                image = transform(image)
        return image

    def _there(self, payload: memoryview | None, sample: int) -> memoryview:
        if payload is None:
            raise DamagedSample(
                f"{self._pack.describe(sample, IMAGE)}: is not there", sample=sample
            )
        return payload

    def _shape(self, sample: int) -> Shape:
        if self._one_shape is not None:
            return self._one_shape
        index = self._pack.index
        return int(index["height"][sample]), int(index["width"][sample])

    @functools.cached_property
    def _one_shape(self) -> Shape | None:
        """(height, width) of all pictures as they are stored; None if they differ."""
        if len(self._pack) == 0:
            return None
        columns = [self._pack.index[side] for side in ("height", "width")]
        if any(column.min() != column.max() for column in columns):
            return None
        return int(columns[0][0]), int(columns[1][0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_one_shape"}

    def _fused(self, shape: Shape, draws: Draws) -> tuple[Codec, Fused]:
        codec = _codec(self._codec)
        steps = draw_steps(self.built_in, shape, draws)
        return codec, fuse(steps, shape, codec.DIVISORS, self.quality == "fast")

    def _piece(self, shape: Shape, draws: Draws, size: Shape) -> Piece | None:
        """What to make of a picture; None if that is more than cutting, resizing and mirroring."""
        region, steps = self._fused(shape, draws)[1]
        step = steps[0] if len(steps) == 1 else None
        if isinstance(step, Scale) and (step.height, step.width) == size:
            return Piece(shape[1], shape[0], region, step.mirrored)
        if (isinstance(step, Flip) or not steps) and (region.height, region.width) == size:
            return Piece(shape[1], shape[0], region, bool(steps))
        return None

    def _decode(
        self,
        codec: Codec,
        payload: memoryview | None,
        sample: int,
        shape: Shape,
        region: Region,
        out: Pixels | None = None,
    ) -> Pixels:
        height, width = shape
        try:
            return codec.decode_region(self._there(payload, sample), width, height, region, out)
        except ImageError as error:
            raise DamagedSample(
                f"{self._pack.describe(sample, IMAGE)}: {error.message}",
                self._pack.verify_hint(),
                sample,
            ) from error


def _image_field(pack: Pack) -> Field:
    for field in pack.manifest.fields:
        if field.name == IMAGE and field.kind == "image":
            return field
    raise UsageError(f"{pack.root}: has no field {IMAGE!r} with pictures")


def _split(
    transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None,
) -> tuple[tuple[BuiltIn, ...], tuple[Callable[..., Any], ...]]:
    """The built-in transforms at the front, and what follows them."""
    if transform is None:
        return (), ()
    transforms = (transform,) if callable(transform) else tuple(transform)
    for entry in transforms:
        if not callable(entry):
            raise UsageError(f"transform {entry!r} cannot be called")
    front: list[BuiltIn] = []
    for entry in transforms:
        if not isinstance(entry, BuiltIn):
            break
        front.append(entry)
    return tuple(front), transforms[len(front) :]


def owned(pixels: Array) -> Array:
    """The same pixels in contiguous, writable memory that nothing else shares: a view would keep
    all that was read or decoded with it alive, and writing to it would write there.
    """
    base = pixels.base
    whole = isinstance(base, np.ndarray) and base.base is None and base.nbytes == pixels.nbytes
    alone = base is None or whole
    if alone and pixels.flags.writeable and pixels.flags.c_contiguous:
        return pixels
    return np.array(pixels, order="C")
