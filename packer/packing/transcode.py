"""One picture's file → the payload that a shard stores for it."""

from __future__ import annotations

import numpy as np

from packer.codecs import Codec, load_codec
from packer.errors import ImageError
from packer.imaging import memory
from packer.imaging.decode import Decoded, decode
from packer.imaging.heads.head import Head
from packer.imaging.heads.probe import probe, require_pixel_count
from packer.imaging.heads.sniff import EXTENSIONS
from packer.imaging.plan import PicturePlan, plan_picture
from packer.imaging.resize import resize
from packer.settings.options import ImageOptions
from packer.types import Encoded, Pixels


def transcode(data: bytes, options: ImageOptions, extension: str = "") -> Encoded:
    """Decode, turn, convert to sRGB, resize and encode one picture.

    A picture that needs none of this keeps its coded pixels bit for bit, without metadata, after
    they were decoded once to prove that they are whole.

    Args:
        data: The file's bytes.
        options: How pictures are made.
        extension: Extension of the file's name, with or without its dot; one that does not fit the
            content becomes a note.

    Raises:
        ImageError: The picture cannot be stored; `reason` and `detail` go to the ledger.
        MemoryError: Not enough memory. The ledger does not list such a picture, as another machine
            could store it.
    """
    head = probe(data)
    codec = load_codec(options.codec)
    plan = plan_picture(head, options, codec)
    needed = memory.needed(head, plan.divisor)
    with memory.place_for(needed):
        try:
            return _transcode(data, plan, codec, extension)
        except ImageError as error:
            if error.reason != "unsupported" and not memory.has_room(needed):
                raise MemoryError(error.message) from error
            raise


def _transcode(data: bytes, plan: PicturePlan, codec: Codec, extension: str) -> Encoded:
    notes = _name_note(plan.head, extension)
    if plan.keeps:
        payload = _keep(data, plan, codec)
        if payload is not None:
            notes += (plan.conversion.note,) if plan.conversion.note else ()
            notes += ("gray",) if plan.head.mode == "gray" else ()
            return Encoded(payload, *plan.geometry.size, (*notes, "kept"))
    picture = decode(data, plan)
    return _encode(picture, plan.with_size((picture.width, picture.height)), codec, notes)


def transcode_pixels(pixels: Pixels, options: ImageOptions) -> Encoded:
    """Resize and encode a picture that was never in a file.

    Args:
        pixels: H×W×3 uint8 RGB, upright.
        options: How pictures are made.

    Raises:
        ImageError: bad-size; too-large.
    """
    height, width = pixels.shape[:2]
    if not (width and height):
        raise ImageError("bad-size", f"{width} x {height} pixels")
    require_pixel_count(width, height)
    codec = load_codec(options.codec)
    plan = plan_picture(Head("", width, height), options, codec)
    return _encode(Decoded.of(np.ascontiguousarray(pixels)), plan, codec, ())


def _encode(picture: Decoded, plan: PicturePlan, codec: Codec, notes: tuple[str, ...]) -> Encoded:
    payload = codec.encode(resize(picture, plan), plan.options)
    return Encoded(payload, *plan.geometry.size, notes + picture.notes)


def _keep(data: bytes, plan: PicturePlan, codec: Codec) -> bytes | None:
    """The file without metadata, if the codec's own decoder reads it without an error or warning;
    None if not: then the picture is decoded by other means and encoded again.
    """
    payload = codec.strip(data)
    try:
        codec.decode_strictly(payload, *plan.geometry.size)
    except ImageError:
        return None
    return payload


def _name_note(head: Head, extension: str) -> tuple[str, ...]:
    name = extension.removeprefix(".").lower()
    return ("extension",) if name and name not in EXTENSIONS[head.kind] else ()
