"""Pictures of a pack as they are stored: their sizes, and the way from a payload to pixels."""

from __future__ import annotations

import functools
from typing import Any

from packer.codecs import Codec, ManyCodec, load_codec
from packer.errors import DamagedSample, ImageError, UsageError
from packer.imaging.native.region import Region
from packer.pack.opened import Pack
from packer.reader.images.steps import Shape
from packer.types import Field, Pixels

IMAGE = "image"
#: Cached, because load_codec asks Python's import system for each picture.
_codec = functools.cache(load_codec)


@functools.cache
def _many_codec(name: str) -> ManyCodec | None:
    codec = load_codec(name)
    return codec if isinstance(codec, ManyCodec) else None


class StoredPictures:
    """Decodes the pictures of a pack.

    Args:
        pack: The open pack.

    Raises:
        UsageError: The pack has no image field.
    """

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self.codec_name = str(_image_field(pack).codec)

    @property
    def codec(self) -> Codec:
        """The codec of all pictures."""
        return _codec(self.codec_name)

    @property
    def many_codec(self) -> ManyCodec | None:
        """The codec, if it decodes several pictures in one call."""
        return _many_codec(self.codec_name)

    def shape(self, sample: int) -> Shape:
        """(height, width) of one picture in pixels."""
        if self.one_shape is not None:
            return self.one_shape
        index = self._pack.index
        return int(index["height"][sample]), int(index["width"][sample])

    @functools.cached_property
    def one_shape(self) -> Shape | None:
        """(height, width) of all pictures in pixels; None if they differ, or there are none."""
        if len(self._pack) == 0:
            return None
        columns = [self._pack.index[side] for side in ("height", "width")]
        if any(column.min() != column.max() for column in columns):
            return None
        return int(columns[0][0]), int(columns[1][0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "one_shape"}

    def payload(self, payload: memoryview | None, sample: int) -> memoryview:
        """The payload, if there is one.

        Raises:
            DamagedSample: There is none.
        """
        if payload is None:
            raise DamagedSample(f"{self.describe(sample)}: is not there", sample=sample)
        return payload

    def decode(
        self,
        payload: memoryview | None,
        sample: int,
        region: Region,
        out: Pixels | None = None,
    ) -> Pixels:
        """Decode a part of one picture.

        Args:
            payload: The coded picture.
            sample: Its number.
            region: The part, and at which size.
            out: Where to write it, region.height×region.width×3 uint8; None: into new memory.

        Returns:
            H×W×3 uint8; may share memory with `payload`.

        Raises:
            DamagedSample: There is no payload, or it cannot be decoded.
        """
        height, width = self.shape(sample)
        coded = self.payload(payload, sample)
        try:
            return self.codec.decode_region(coded, width, height, region, out)
        except ImageError as error:
            where, hint = self.describe(sample), self._pack.verify_hint()
            raise DamagedSample(f"{where}: {error.message}", hint, sample) from error

    def describe(self, sample: int) -> str:
        """Where a picture is, for a message."""
        return self._pack.describe(sample, IMAGE)


def _image_field(pack: Pack) -> Field:
    for field in pack.manifest.fields:
        if field.name == IMAGE and field.kind == "image":
            return field
    raise UsageError(f"{pack.root}: has no field {IMAGE!r} with pictures")
