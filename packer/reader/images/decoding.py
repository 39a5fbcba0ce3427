"""From a payload to what users get: decoded, transformed, an array or a PIL image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from packer import registry
from packer.arguments import check_choice, shown
from packer.errors import DamagedSample, MissingDependency, UsageError
from packer.imaging import memory
from packer.imaging.native.fastresize import mirror
from packer.imaging.native.pieces import Piece
from packer.installing import pip
from packer.pack.opened import Pack
from packer.raised import named
from packer.reader.images.fusing import Fused, fuse
from packer.reader.images.steps import Flip, Scale, Shape, apply_steps, write_steps
from packer.reader.images.stored import StoredPictures
from packer.reader.order.hashing import Draws
from packer.reader.transforms import BuiltIn, draw_steps
from packer.types import Array

#: What is called with pictures: one callable, or several that are applied in turn.
Transform: TypeAlias = Callable[..., Any] | Sequence[Callable[..., Any]]
Decode: TypeAlias = Literal["pil", "numpy", "bytes"]
DECODES: tuple[Decode, ...] = get_args(Decode)
DecodeQuality: TypeAlias = Literal["exact", "fast"]
QUALITIES: tuple[DecodeQuality, ...] = get_args(DecodeQuality)
#: Bytes of an array for a mini-batch: 128 pictures of 3,300 x 3,300 pixels. Loaders may pin it.
_MOST_ROOM = 4 << 30
#: Mini-batches that a loader usually holds in memory at a time.
_MINI_BATCHES = 4


class Room(NamedTuple):
    """Shape and type of an array for pictures.

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

    One rule for all readers: built-in transforms at the front of the list work on pixels, and only
    the part of the picture that they need is decoded. The callables behind them are called with
    what `decode` says: "pil": a PIL image of mode RGB; "numpy": an array H×W×3 uint8, RGB, which is
    the callable's own; "bytes": the coded picture as it is stored. Behind `Normalize`, which makes
    float32 pixels, they are called with an array H×W×3 float32 also with "pil".

    Args:
        pack: The open pack.
        decode: What callables are called with, and what `image` returns without any.
        transform: One callable or several, applied in turn.
        quality: "exact": the pixels are those of decoding everything and then transforming;
            "fast": small deviations for JPEGs.

    Attributes:
        decode: As given.
        quality: As given.
        built_in: The built-in transforms at the front.
        others: The callables behind them.
        random: Whether built-in transforms draw anything.

    Raises:
        UsageError: An argument is invalid, or the pack has no image field.
        MissingDependency: The pack's codec is a plug-in that is not installed.
    """

    def __init__(
        self,
        pack: Pack,
        decode: str,
        transform: Transform | None,
        quality: str = "exact",
    ) -> None:
        self.decode = check_choice("decode", decode, DECODES)
        self.quality = check_choice("decode_quality", quality, QUALITIES)
        self._stored = StoredPictures(pack)
        if self.decode != "bytes":
            registry.require_offered("codecs", self._stored.codec_name, pack.manifest.libraries)
        self.built_in, self.others = _split(transform)
        transforms = (*self.built_in, *self.others)
        self.random = any(isinstance(entry, BuiltIn) and entry.RANDOM for entry in transforms)
        if decode == "bytes" and self.built_in:
            raise UsageError(
                f"decode='bytes' leaves nothing for {self.built_in[0]!r}", "use decode='numpy'"
            )

    def pixels(self, payload: memoryview | None, sample: int, draws: Draws) -> Array:
        """The picture behind the built-in transforms: H×W×3, uint8 or, after Normalize, float32.

        Do not write to it: it may share memory with `payload`.

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
            draws: Source of random parameters.
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
        """`write` several pictures in one call of their codec, if it has one. Raises nothing.

        Args:
            payloads: The coded pictures.
            samples: Their numbers.
            draw: Returns the source of random parameters for a sample number.
            out: N places in a mini-batch, see `write`.

        Returns:
            Places of the pictures for which this was not done, from 0: `write` them one by one.
        """
        codec = self._stored.many_codec
        direct = out.dtype == np.uint8 and out.flags.c_contiguous
        if codec is None or not direct or not self.at_once:
            return range(len(payloads))
        size = out.shape[1], out.shape[2]
        if self._alike:
            pieces = [self._piece(samples[0], draw(samples[0]), size)] * len(samples)
        else:
            pieces = [self._piece(sample, draw(sample), size) for sample in samples]
        return codec.decode_pieces(payloads, pieces, out)

    @property
    def at_once(self) -> int:
        """Best number of pictures for one call of `write_all`; 0: `write` each."""
        codec = self._stored.many_codec
        return 0 if codec is None else codec.at_once(self._alike)

    @property
    def _alike(self) -> bool:
        """Whether all pictures go through the same steps."""
        return not self.random and self._stored.one_shape is not None

    def room(self, count: int) -> Room | None:
        """The array that `write` needs for `count` pictures; None if each gets memory of its own:
        their sizes differ, callables of the user make something else of them, or the array would be
        larger than what may be allocated from the sizes in an index.
        """
        shape = None if self.decode == "bytes" or self.others else self.fixed_shape()
        if shape is None:
            return None
        floats = any(transform.DTYPE == "float32" for transform in self.built_in)
        room = Room((count, *shape, 3), "float32" if floats else "uint8")
        return room if room.is_affordable() else None

    def fixed_shape(self) -> Shape | None:
        """(height, width) of all pictures behind the built-in transforms; None if they differ, or
        there are no pictures.
        """
        shape = self._stored.one_shape
        for transform in self.built_in:
            shape = transform.fixed_shape(shape)
        return shape

    def image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        """The picture behind all transforms, of the kind that `decode` says; raises as `pixels`."""
        try:
            return self._image(payload, sample, draws)
        except BaseException as error:
            raise self._named(error, sample)  # noqa: B904 - as above

    def _named(self, error: BaseException, sample: int) -> BaseException:
        """The error with the sample's name, which errors of damaged samples have already."""
        if isinstance(error, DamagedSample):
            return error
        where = f"{self._stored.describe(sample)} (decode={self.decode!r})"
        return named(error, "a transform", where)

    def _pixels(self, payload: memoryview | None, sample: int, draws: Draws) -> Array:
        fused = self._fused(sample, draws)
        return apply_steps(self._stored.decode(payload, sample, fused.region), fused.steps)

    def _write(self, payload: memoryview | None, sample: int, draws: Draws, out: Array) -> None:
        region, steps = self._fused(sample, draws)
        direct = out.dtype == np.uint8 and out.flags.c_contiguous
        direct = direct and out.shape == (region.height, region.width, 3)
        if direct and all(isinstance(step, Flip) for step in steps):
            self._stored.decode(payload, sample, region, out)
            if len(steps) % 2:
                mirror(out)
        else:
            write_steps(self._stored.decode(payload, sample, region), steps, out)

    def _image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        image: Any
        if self.decode == "bytes":
            image = bytes(self._stored.payload(payload, sample))
        else:
            image = owned(self._pixels(payload, sample, draws))
            if self.decode == "pil" and image.dtype == np.uint8:
                image = _as_pil(image)
        for transform in self.others:
            if isinstance(transform, BuiltIn):
                image = transform(image, draws)
            else:
                image = transform(image)
        return image

    def _fused(self, sample: int, draws: Draws) -> Fused:
        shape = self._stored.shape(sample)
        steps = draw_steps(self.built_in, shape, draws)
        return fuse(steps, shape, self._stored.codec.DIVISORS, self.quality == "fast")

    def _piece(self, sample: int, draws: Draws, size: Shape) -> Piece | None:
        """The steps as one piece of work for the codec; None if they are more than cutting,
        resizing and mirroring.
        """
        height, width = self._stored.shape(sample)
        region, steps = self._fused(sample, draws)
        step = steps[0] if len(steps) == 1 else None
        if isinstance(step, Scale) and (step.height, step.width) == size:
            return Piece(width, height, region, step.mirrored)
        if (isinstance(step, Flip) or not steps) and (region.height, region.width) == size:
            return Piece(width, height, region, bool(steps))
        return None


def kept(transform: Transform | None) -> Callable[..., Any] | tuple[Callable[..., Any], ...] | None:
    """The transform; a list as a tuple, because appending to the list would change nothing.

    Raises:
        UsageError: It is neither a callable nor a list of callables.
    """
    if transform is None or callable(transform):
        return transform
    if not isinstance(transform, Sequence) or isinstance(transform, str | bytes):
        raise UsageError(f"invalid transform {shown(transform)}", "a callable, or a list of them")
    for entry in transform:
        if not callable(entry):
            raise UsageError(f"transform {shown(entry)} cannot be called")
    return tuple(transform)


def _split(
    transform: Transform | None,
) -> tuple[tuple[BuiltIn, ...], tuple[Callable[..., Any], ...]]:
    """The built-in transforms at the front, and what follows them."""
    given = kept(transform)
    transforms = given if isinstance(given, tuple) else () if given is None else (given,)
    front: list[BuiltIn] = []
    for entry in transforms:
        if not isinstance(entry, BuiltIn):
            break
        front.append(entry)
    return tuple(front), transforms[len(front) :]


def _as_pil(pixels: Array) -> Any:
    from packer.imaging.pil import from_pixels

    try:
        return from_pixels(pixels)
    except ModuleNotFoundError:
        raise MissingDependency(
            f"decode='pil' needs Pillow, which is not installed ({pip()} install pillow)",
            "decode='numpy' gives arrays H×W×3 without it",
        ) from None


def owned(pixels: Array) -> Array:
    """The same pixels in contiguous, writable memory of their own: a view would keep the whole
    buffer alive that was read or decoded, and writing to it would change that buffer.
    """
    base = pixels.base
    whole = isinstance(base, np.ndarray) and base.base is None and base.nbytes == pixels.nbytes
    alone = base is None or whole
    if alone and pixels.flags.writeable and pixels.flags.c_contiguous:
        return pixels
    return np.array(pixels, order="C")
