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
    """The names of a codec's module.

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
        """Encode pixels; equal pixels and options give equal bytes.

        Args:
            pixels: H×W×3 uint8 RGB, or H×W×4 if `FOUR_BYTES`.
            options: Quality and subsampling.

        Raises:
            ImageError: bad-size: a side is longer than `MAX_SIDE`.
        """

    def decode(self, payload: bytes | memoryview, width: int, height: int) -> Pixels:
        """Decode a payload.

        Args:
            payload: The encoded picture.
            width: Width of the picture in pixels, as in the index.
            height: Height of the picture in pixels, as in the index.

        Returns:
            height×width×3 uint8 RGB; may be a read-only view of the payload.

        Raises:
            ImageError: truncated; undecodable; or bad-size: the payload's picture has another size.
            MissingDependency: A library that decoding needs is not installed.
        """

    def decode_strictly(self, payload: bytes, width: int, height: int) -> Pixels:
        """Decode a payload that another program encoded, to prove that it can be stored as it is.

        Raises:
            ImageError: As `decode`. Also if the decoder prints a warning, if only a tolerant
                decoder reads the payload, or if two decoders read it differently.
        """

    def decode_region(
        self,
        payload: bytes | memoryview,
        width: int,
        height: int,
        region: Region,
        out: Pixels | None = None,
    ) -> Pixels:
        """Decode a rectangle of a picture.

        At full size the pixels are exactly those of `decode`, unless the region is `fast`. Raises
        what `decode` raises, but damage outside the rectangle may remain unnoticed.

        Args:
            payload: The encoded picture.
            width: Width of the whole picture in pixels.
            height: Height of the whole picture in pixels.
            region: What to decode; its divisor is one of `DIVISORS`.
            out: Array to write to: height×width×3 uint8 of the region's size, C-contiguous.

        Returns:
            `out`; without it, height×width×3 uint8 RGB of the region's size, which may be a view.
        """

    def file_header(self, width: int, height: int) -> bytes:
        """Bytes that make a file of a payload if they precede it; b"" if a payload is a file."""

    def accepts(self, head: Head, options: ImageOptions) -> bool:
        """Whether a file may be stored without re-encoding its pixels, judging by its header. The
        caller checks size, orientation and colour profile.
        """

    def strip(self, data: bytes) -> bytes:
        """Remove the metadata of an accepted file; the encoded pixels stay bit for bit. Nothing is
        repaired: a broken file stays broken.
        """


@runtime_checkable
class ManyCodec(Protocol):
    """Optional names of a codec's module: they decode several pictures in one call, during which
    the interpreter lock is not taken.
    """

    def at_once(self, alike: bool) -> int:
        """Number of pictures for one call of `decode_pieces`; 0 if it would decode none.

        The end of a loop is noticed only between two calls, so a call should take milliseconds.

        Args:
            alike: Whether the piece is the same for all pictures.
        """

    def decode_pieces(
        self, payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
    ) -> Sequence[int]:
        """Decode a piece of each picture into its place in `out`, with exactly the pixels that
        `decode_region` and resizing return.

        Args:
            payloads: The encoded pictures; None for a missing one.
            pieces: What to make of each picture; None: nothing.
            out: N×height×width×3 uint8, C-contiguous.

        Returns:
            Indices of the pictures that were not decoded; their places hold arbitrary bytes. Decode
            these one by one, which raises the reason.
        """


PROTOCOL = Codec
_NOTHING: Mapping[str, str] = {}


def load_codec(name: str, made_with: Mapping[str, str] = _NOTHING) -> Codec:
    """Load the codec with a name.

    Args:
        name: Name of the codec.
        made_with: The `libraries` of the pack that is read, see `packer.registry.load`.

    Raises:
        UsageError: No such codec, with a suggestion; or a plug-in that cannot be loaded.
        MissingDependency: The pack was made with a plug-in that is not installed.
    """
    return cast(Codec, registry.load("codecs", name, made_with))
