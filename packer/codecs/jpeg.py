"""Codec jpeg: baseline JPEG by libjpeg-turbo, through simplejpeg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from packer.codecs._bits import photograph_bits
from packer.codecs._size import require_size
from packer.errors import ImageError
from packer.imaging import jpeg as jpeg_decoder
from packer.imaging.heads.head import Head
from packer.imaging.heads.jpeg import EOI, MARKER, require_few_scans
from packer.imaging.heads.probe import probe
from packer.imaging.native.pieces import NATIVE, Piece, make_pieces
from packer.imaging.native.region import Region, decode_jpeg
from packer.settings.options import ImageOptions
from packer.types import Array, Pixels

EXTENSION: Final = "jpg"
KIND: Final = "jpeg"
FOUR_BYTES: Final = True
ONE_SIZE: Final = False
OPTIONS: Final = ("quality", "subsampling", "reencode")
#: JPEG_MAX_DIMENSION of libjpeg, in pixels; the format itself allows 65,535.
MAX_SIDE: Final = 65_500
#: Factors for which libjpeg-turbo has fast inverse transforms.
DIVISORS: Final = (1, 2, 4, 8)
FEATURE: Final = "image"
#: Pictures in one call: 2 ms for pictures of 256 pixels, half a second for those of a camera.
_AT_ONCE = 8

_JFIF, _ADOBE, _COMMENT = 0xE0, 0xEE, 0xFE
#: Size in bytes relative to 4:2:0, of the same picture.
_SUBSAMPLING_FACTOR: Final = {"4:4:4": 1.25, "4:2:2": 1.1, "4:2:0": 1.0}


def bits_per_pixel(options: ImageOptions) -> float:
    """Interpolate between measured qualities; multiply by a factor for the subsampling."""
    return photograph_bits(options.quality) * _SUBSAMPLING_FACTOR[options.subsampling]


def describe(options: Mapping[str, Any]) -> str:
    """Return quality and chroma subsampling."""
    return f"quality {options.get('quality')} {options.get('subsampling')}"


def encode(pixels: Pixels, options: ImageOptions) -> bytes:
    """Encode pixels as a JFIF file: 8 bits, YCbCr, quality and subsampling as in the options."""
    import simplejpeg

    height, width, count = pixels.shape
    if max(width, height) > MAX_SIDE:
        raise ImageError(
            "bad-size", f"{width} x {height} pixels; the longest side of a JPEG is {MAX_SIDE}"
        )
    payload: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels),
        quality=options.quality,
        colorspace="RGBX" if count == 4 else "RGB",
        colorsubsampling=options.subsampling.replace(":", ""),
    )
    return payload


def decode(payload: bytes | memoryview, width: int, height: int) -> Pixels:
    """Decode a JPEG. libjpeg decodes packer's own payloads without a warning. Shards of other
    programs may hold files with stray bytes, and files that only Pillow reads, if it is installed.
    """
    return _decode_whole(payload, (height, width), Region(0, 0, height, width))


def decode_strictly(payload: bytes, width: int, height: int) -> Pixels:
    """Decode a JPEG by libjpeg alone; a warning of libjpeg is an error."""
    head = probe(payload)
    require_size((head.width, head.height), width, height)
    jpeg_decoder.require_no_lost_block(payload, head)
    try:
        return jpeg_decoder.decode_by_simplejpeg(payload, head)
    except ValueError as error:
        raise ImageError("undecodable", f"libjpeg: {error}") from None


def decode_region(
    payload: bytes | memoryview,
    width: int,
    height: int,
    region: Region,
    out: Pixels | None = None,
) -> Pixels:
    """Decode a rectangle of a JPEG. The C extension decodes nothing else. Without the extension, or
    if it reports an error or warning, the whole picture is decoded.
    """
    if not region.is_whole(width, height):
        room = np.empty((region.height, region.width, 3), np.uint8) if out is None else out
        if decode_jpeg(payload, (width, height), region, room):
            return room
    shape = -(-height // region.divisor), -(-width // region.divisor)
    whole = out if region.is_whole(width, height) else None
    pixels = _decode_whole(payload, (height, width), region, whole)
    if pixels.shape[:2] != shape:  # Pillow decodes at full size only
        pixels = _reduced(pixels, region.divisor)
    if whole is not None and np.may_share_memory(pixels, whole):
        return whole
    return region.cut(pixels, out)


def at_once(alike: bool) -> int:
    """See `packer.codecs.ManyCodec`."""
    return _AT_ONCE if NATIVE.is_built else 0


def decode_pieces(
    payloads: Sequence[memoryview | None], pieces: Sequence[Piece | None], out: Array
) -> Sequence[int]:
    """See `packer.codecs.ManyCodec`."""
    return make_pieces(payloads, pieces, out)


def file_header(width: int, height: int) -> bytes:
    """Return b"": a payload is a file."""
    return b""


def accepts(head: Head, options: ImageOptions) -> bool:
    """Accept 8-bit gray or YCbCr, baseline or progressive: every decoder reads these."""
    return (
        head.kind == KIND
        and head.bits == 8
        and head.mode in ("gray", "ycc")
        and head.coding in ("baseline", "extended", "progressive")
    )


def strip(data: bytes) -> bytes:
    """Remove APPn segments, comments, and everything after the end of the picture. JFIF and Adobe
    segments stay, as they define the colour components.
    """
    kept, position = [b"\xff\xd8"], 2
    while found := MARKER.search(data, position):
        if position > 2:  # entropy-coded data after a scan header, else nothing
            kept.append(data[position : found.start()])
        marker = data[found.start() + 1]
        if marker == EOI:
            kept.append(b"\xff\xd9")
            return b"".join(kept)
        end = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
        segment = data[found.start() : end]
        if _is_needed(marker, segment):
            kept.append(segment)
        position = end
    return b"".join([*kept, data[position:]])


def _is_needed(marker: int, segment: bytes) -> bool:
    if marker == _JFIF:
        return segment[4:9] == b"JFIF\x00"
    if marker == _ADOBE:
        return segment[4:9] == b"Adobe"
    return marker != _COMMENT and not _JFIF <= marker <= 0xEF


def _decode_whole(
    payload: bytes | memoryview, shape: tuple[int, int], region: Region, out: Pixels | None = None
) -> Pixels:
    """Decode a picture of this (height, width), reduced and fast as the region asks."""
    import simplejpeg

    require_few_scans(payload)
    height, width = shape
    scaled = -(-height // region.divisor), -(-width // region.divisor)
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            payload,
            "RGB",
            fastdct=region.fast,
            fastupsample=region.fast,
            min_height=scaled[0] if region.divisor > 1 else 0,
            min_width=scaled[1] if region.divisor > 1 else 0,
            min_factor=region.divisor,
            buffer=np.empty((*scaled, 3), np.uint8) if out is None else out,
        )
    except ValueError:
        return _second_opinion(bytes(payload), width, height)
    require_size((pixels.shape[1], pixels.shape[0]), scaled[1], scaled[0])
    return pixels


def _reduced(pixels: Pixels, divisor: int) -> Pixels:
    """Reduce a picture by block means, nearly as a reduced inverse transform does."""
    height, width = pixels.shape[:2]
    room = ((0, -height % divisor), (0, -width % divisor), (0, 0))
    padded = np.pad(pixels, room, mode="edge")
    blocks = padded.reshape(-(-height // divisor), divisor, -(-width // divisor), divisor, 3)
    means: Pixels = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
    return means


def _second_opinion(payload: bytes, width: int, height: int) -> Pixels:
    """Decode what simplejpeg refused, by the decoders that converting uses."""
    head = probe(payload)
    require_size((head.width, head.height), width, height)
    return jpeg_decoder.decode(payload, head, 1)[0]
