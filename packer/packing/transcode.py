"""One picture's file → what a shard stores for it."""

from __future__ import annotations

import numpy as np

from packer.codecs import Codec, load_codec
from packer.errors import ImageError
from packer.imaging import memory
from packer.imaging.colour import conversion
from packer.imaging.decode import decode, reduction
from packer.imaging.heads.head import Head
from packer.imaging.heads.probe import probe, require_pixel_count
from packer.imaging.heads.sniff import EXTENSIONS
from packer.imaging.resize import Geometry, geometry, resize
from packer.settings.options import ImageOptions
from packer.types import Encoded, Pixels


def transcode(data: bytes, options: ImageOptions, extension: str = "") -> Encoded:
    """Decode, turn, convert to sRGB, resize and encode one picture.

    A picture that needs none of this keeps its coded pixels bit for bit, without metadata, after
    they were decoded once to prove that they are whole.

    Args:
        data: The file's bytes.
        options: What is asked for.
        extension: Of the file's name, with or without its dot, to note one that does not fit.

    Raises:
        ImageError: The picture cannot be stored; `reason` and `detail` go to the ledger.
        MemoryError: There is not enough. No ledger has it, as the same file would be stored on
            another machine.
    """
    head = probe(data)
    codec = load_codec(options.codec)
    plan = _plan(head.upright_size, codec, options)
    # A filter that picks single pixels must find those of the full picture.
    exact = options.exact_decode or options.filter == "nearest" or options.size is None
    target = None if exact else plan.scaled
    needed = memory.needed(head, reduction(head, target))
    with memory.place_for(needed):
        try:
            return _transcode(data, head, plan, options, target, extension)
        except ImageError as error:
            if error.reason != "unsupported" and not memory.has_room(needed):
                raise MemoryError(error.message) from error
            raise


def _transcode(
    data: bytes,
    head: Head,
    plan: Geometry,
    options: ImageOptions,
    target: tuple[int, int] | None,
    extension: str,
) -> Encoded:
    codec = load_codec(options.codec)
    notes = _name_note(head, extension)
    profile = conversion(head.icc, "L" if head.mode == "gray" else "RGB")
    if profile.transform is None and _needs_no_change(head, plan, codec, options):
        payload = _keep(data, codec, plan)
        if payload is not None:
            notes += (profile.note,) if profile.note else ()
            notes += ("gray",) if head.mode == "gray" else ()
            return Encoded(payload, *plan.size, (*notes, "kept"))
    picture = decode(
        data,
        head=head,
        target=target,
        options=options,
        defer_colour=True,
        four_bytes=codec.FOUR_BYTES,
    )
    if (picture.width, picture.height) != head.upright_size:
        plan = _plan((picture.width, picture.height), codec, options)
    payload = codec.encode(resize(picture, options), options)
    return Encoded(payload, *plan.size, notes + picture.notes)


def transcode_pixels(pixels: Pixels, options: ImageOptions) -> Encoded:
    """Resize and encode a picture that was never in a file.

    Args:
        pixels: H×W×3 uint8 RGB, upright.
        options: What is asked for.

    Raises:
        ImageError: bad-size; too-large.
    """
    height, width = pixels.shape[:2]
    if not (width and height):
        raise ImageError("bad-size", f"{width} x {height} pixels")
    require_pixel_count(width, height)
    codec = load_codec(options.codec)
    plan = _plan((width, height), codec, options)
    resized = resize(np.ascontiguousarray(pixels), options)
    return Encoded(codec.encode(resized, options), *plan.size)


def _plan(size: tuple[int, int], codec: Codec, options: ImageOptions) -> Geometry:
    plan = geometry(*size, options)
    if max(plan.size) > codec.MAX_SIDE:
        raise ImageError(
            "bad-size",
            f"{plan.size[0]} x {plan.size[1]} pixels; codec {options.codec} ends at"
            f" {codec.MAX_SIDE} a side",
        )
    return plan


def _needs_no_change(head: Head, plan: Geometry, codec: Codec, options: ImageOptions) -> bool:
    size = (head.width, head.height)
    return (
        not options.reencode
        and head.orientation == 1
        and plan.size == plan.scaled == size
        and codec.accepts(head, options)
    )


def _keep(data: bytes, codec: Codec, plan: Geometry) -> bytes | None:
    """The file without metadata, after the decoder that will read it has read it; None if that
    decoder refuses it, so that it is decoded by other means and encoded anew.
    """
    payload = codec.strip(data)
    try:
        codec.decode_strictly(payload, *plan.size)
    except ImageError:
        return None
    return payload


def _name_note(head: Head, extension: str) -> tuple[str, ...]:
    name = extension.removeprefix(".").lower()
    return ("extension",) if name and name not in EXTENSIONS[head.kind] else ()
