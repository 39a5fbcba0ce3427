"""How a picture's pixels become bytes in a shard and come back: one file a codec.

Each module has the names of `Codec`, below; other distributions add theirs by entry points of the
group `packer.codecs` (docs/extending.md). A payload is what a shard holds for one picture. The
reading side (`decode`) must work with the base install: numpy and simplejpeg, OpenCV where it is
present. `packer.testing.CodecSuite` holds every codec to the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from packer import registry
from packer.imaging.heads.head import Head
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Array, Pixels

__all__ = ["Codec", "ManyCodec", "load_codec"]


class Codec(Protocol):
    """The shape of a codec's module.

    Attributes:
        EXTENSION: The member's extension in tar shards, lower case, without the dot.
        KIND: Name of the payloads' file type in `packer.imaging.heads.sniff`; "" if it has none.
        FOUR_BYTES: Whether `encode` also takes H×W×4 pixels and ignores the fourth byte.
        ONE_SIZE: Whether all pictures of a pack must have the same size.
        OPTIONS: The options among quality, subsampling and reencode that change the payload
            (`packer.settings.options.ImageOptions`); a warning names the others as unused.
        MAX_SIDE: Longest side that can be stored, in pixels.
        DIVISORS: Factors by which `decode_region` can reduce a picture, ascending from 1.
        FEATURE: Type of its tar members for Hugging Face's `datasets`: "image" if Pillow opens
            them, "binary" for bytes, or a nested type.
    """

    EXTENSION: str
    KIND: str
    FOUR_BYTES: bool
    ONE_SIZE: bool
    OPTIONS: tuple[str, ...]
    MAX_SIDE: int
    DIVISORS: tuple[int, ...]
    FEATURE: Any

    def bits_per_pixel(self, options: ImageOptions) -> float:
        """Estimated mean size of a payload in bits per pixel, for photographs.

        It decides only how many batches a shard has. Equal options give equal numbers: the plan of
        a pack depends on it.
        """

    def describe(self, options: Mapping[str, Any]) -> str:
        """The settings of a finished pack for `packer info`: "quality 90 4:2:0", or "".

        Args:
            options: Options by name, as in the manifest.
        """

    def encode(self, pixels: Pixels, options: ImageOptions) -> bytes:
        """Pixels → payload; equal pixels and options give equal bytes.

        Raises:
            ImageError: bad-size (a side is longer than `MAX_SIDE`).
        """

    def decode(self, payload: bytes | memoryview, width: int, height: int) -> Pixels:
        """Payload → height×width×3 uint8 RGB; may be a read-only view of the payload.

        Raises:
            ImageError: truncated, undecodable, or bad-size: it holds a picture of another size.
            MissingDependency: A library that this needs is not installed.
        """

    def decode_strictly(self, payload: bytes, width: int, height: int) -> Pixels:
        """As `decode`, for a payload that was not encoded here: the proof that a file can be
        stored as it is. Refuses what its decoder prints a warning about, what only a tolerant
        decoder reads, and what two decoders read differently.

        Raises:
            ImageError: As `decode`; also for any such difference.
        """

    def decode_region(
        self,
        payload: bytes | memoryview,
        width: int,
        height: int,
        region: Region,
        out: Pixels | None = None,
    ) -> Pixels:
        """A rectangle of a picture of this size, at full size the very pixels that `decode` gives
        unless the region asks for fast; raises as it, but may pass over damage elsewhere.

        Args:
            payload: The coded picture.
            width: Of the whole picture.
            height: Of the whole picture.
            region: What to decode; its divisor is one of `DIVISORS`.
            out: Where to write it: of the region's size, C-contiguous.

        Returns:
            `out`, or without it height×width×3 uint8 RGB of the region's size, which may be a view.
        """

    def file_header(self, width: int, height: int) -> bytes:
        """What stands before a payload to make it a file of its own; b"" where it is one."""

    def accepts(self, head: Head, options: ImageOptions) -> bool:
        """Whether a file may be stored without encoding its pixels anew, going by its head.
        Size, orientation and colour profile are the caller's to judge.
        """

    def strip(self, data: bytes) -> bytes:
        """An accepted file without its metadata: the coded pixels stay bit for bit. Nothing is
        repaired, so that a broken file stays one.
        """


@runtime_checkable
class ManyCodec(Protocol):
    """What a codec's module may have beside: several pictures in one call, between whose parts no
    thread waits for the interpreter lock.
    """

    def at_once(self, alike: bool) -> int:
        """How many pictures are worth one call of `decode_pieces`; 0: it would do none. Between two
        calls it is noticed that a loop was left.

        Args:
            alike: Whether the same piece is wanted of all.
        """

    def decode_pieces(
        self, payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
    ) -> Sequence[int]:
        """A piece of each of some pictures into its place in `out`: N×height×width×3 uint8,
        C-contiguous. The very pixels that `decode_region` and resizing give.

        Args:
            payloads: The coded pictures; None: one that is not there.
            pieces: What to make of each; None: nothing.
            out: Where to write them.

        Returns:
            Numbers of those for which this was not done, and whose places hold anything: take them
            one by one, which gives the reason.
        """


PROTOCOL = Codec
_NOTHING: Mapping[str, str] = {}


def load_codec(name: str, made_with: Mapping[str, str] = _NOTHING) -> Codec:
    """The codec of that name.

    Args:
        name: Name of the codec.
        made_with: The `libraries` of the pack that is read, see `packer.registry.load`.

    Raises:
        UsageError: No such codec, with a suggestion; or a plug-in that cannot be loaded.
        MissingDependency: The pack was made with a plug-in that is not installed.
    """
    return cast(Codec, registry.load("codecs", name, made_with))
