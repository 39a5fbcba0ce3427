"""Rewrite a TIFF for Pillow: a new directory with only the tags that decide pixels.

Broken metadata then does not make a picture unreadable, Pillow does not turn it by itself, and some
files that Pillow reads wrongly are rewritten so that it reads them correctly
(tests/imaging/test_tiff.py tests every combination of depth, colours, layout, compression and byte
order).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from packer.errors import ImageError
from packer.imaging.heads.tiff import (
    BITS,
    COLOUR_MAP,
    COMPRESSION,
    DATA_TAGS,
    EXTRA,
    FILL_ORDER,
    FORMAT,
    HEIGHT,
    PHOTOMETRIC,
    PLANAR,
    SAMPLES,
    WIDTH,
    Directory,
    read_directory,
)

#: Rows per strip, predictor, fax options, tiles, JPEG tables, YCbCr, inks: with those above, all
#: that libtiff needs.
_NEEDED: Final = frozenset(
    (
        *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER, SAMPLES, PLANAR),
        *(COLOUR_MAP, EXTRA, FORMAT, 273, 278, 279, 292, 293, 317, 322, 323, 324, 325),
        *(332, 347, 512, 513, 514, 515, 517, 518, 519, 520, 521, 529, 530, 531, 532),
    )
)
_SHORT, _LONG, _LONG8 = 3, 4, 16
_CODES: Final = {1: "B", _SHORT: "H", _LONG: "I", 7: "B", _LONG8: "Q"}
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _PALETTE, _CMYK, _YCBCR = 0, 1, 3, 5, 6
_COLOURS: Final = {0: "gray", 1: "gray", 2: "RGB", 3: "palette", 5: "CMYK", 6: "YCbCr", 8: "Lab"}
#: Numbers of planes that Pillow combines correctly, by photometric.
_PLANES: Final = {2: (3, 4), _CMYK: (4,), _YCBCR: (3,)}
_UNSIGNED, _FLOAT = 1, 3
#: Old and new; of the new one, tables that all strips share.
_JPEG: Final = (6, 7)
_JPEG_TABLES: Final = 347


@dataclass(frozen=True, slots=True)
class Prepared:
    """A TIFF in a form that Pillow reads correctly.

    Attributes:
        data: The file.
        by_libtiff: Whether libtiff must read it instead of Pillow, even if it is not compressed.
        inverted: Whether its gray levels must be inverted.
        colours: Description of its colours, for errors.
    """

    data: bytes
    by_libtiff: bool
    inverted: bool
    colours: str


def jpegs(data: bytes) -> Iterator[bytes]:
    """The strips or tiles of a TIFF with JPEG compression, each as a file of its own; of others,
    nothing.
    """
    directory = read_directory(data)
    if directory.first(COMPRESSION, 1) != _JPEG[1]:
        return
    shared = bytes(directory.values(_JPEG_TABLES)).removesuffix(b"\xff\xd9")
    for offsets, counts in DATA_TAGS:
        pairs = zip(directory.values(offsets), directory.values(counts), strict=False)
        for offset, count in pairs:
            part = data[offset : offset + count]
            yield shared + part[2:] if shared else part


def prepare(data: bytes) -> Prepared:
    """Keep only the first directory of a TIFF, and change what Pillow would read wrongly.

    Raises:
        ImageError: unsupported: a kind that Pillow reads wrongly, or samples without agreed scale.
        struct.error, OverflowError: The data end within the directory.
    """
    directory = read_directory(data)
    photometric = directory.first(PHOTOMETRIC, _WHITE_IS_ZERO)
    samples = directory.first(SAMPLES, 1)
    bits = directory.values(BITS) or (1,)
    compression = directory.first(COMPRESSION, 1)
    colours = f"{bits[0]}-bit {_COLOURS.get(photometric, f'photometric {photometric}')}"
    formats = set(directory.values(FORMAT)) or {_UNSIGNED}
    if formats != {_UNSIGNED}:
        kind = "floating-point" if _FLOAT in formats else "signed, complex or undefined"
        raise ImageError(
            "unsupported", f"TIFF of {kind} samples of {bits[0]} bits, which have no agreed scale"
        )
    if bits[0] > 16:
        raise ImageError("unsupported", f"TIFF of {bits[0]} bits, which have no agreed scale")
    if len(set(bits)) > 1:
        raise ImageError("unsupported", f"TIFF of samples of {bits} bits")
    changed: dict[int, tuple[int, Sequence[int]]] = {}
    order = directory.order
    inverted = photometric == _WHITE_IS_ZERO and bits[0] > 8
    if inverted:  # Pillow inverts up to 8 bits
        changed[PHOTOMETRIC] = (_SHORT, [_BLACK_IS_ZERO])
    if bits[0] == 12 or directory.big:
        order = "<"  # the only one in which Pillow reads these; up to 12 bits, pixels have none
    if order != directory.order and bits[0] == 16:
        raise ImageError("unsupported", "BigTIFF of 16-bit samples in big-endian order")
    if samples == 1:
        changed[PLANAR] = (_SHORT, [1])
    colour_map = directory.values(COLOUR_MAP)
    if photometric == _PALETTE and colour_map and max(colour_map) < 256:
        # The format requires 16 bits; libtiff's own tools read 8-bit values like this.
        changed[COLOUR_MAP] = (_SHORT, [value * 257 for value in colour_map])
    planes = samples > 1 and directory.first(PLANAR, 1) == 2
    unused = directory.first(EXTRA, 2) == 0  # Pillow reads meaningless planes as colours
    if planes and (samples not in _PLANES.get(photometric, ()) or (samples == 4 and unused)):
        raise ImageError("unsupported", f"TIFF of {samples} planes of {colours}")
    return Prepared(
        data=_with_directory(directory, order, changed),
        by_libtiff=compression not in _JPEG and (photometric == _YCBCR or planes),
        inverted=inverted,
        colours=colours,
    )


def _with_directory(
    directory: Directory, order: str, changed: Mapping[int, tuple[int, Sequence[int]]]
) -> bytes:
    """The file with a new directory at its end: needed tags, some of them changed."""
    big, data = directory.big, directory.data
    wide, inline = ("Q", 8) if big else ("I", 4)
    beside: list[bytes] = []  # values that do not fit into their entries
    entries: list[bytes] = []
    position = len(data) + -len(data) % 8
    for tag in sorted({*directory.tags.keys() & _NEEDED, *changed}):
        kind, values = changed.get(tag, (directory.tags.get(tag, (0,))[0], directory.values(tag)))
        if kind not in _CODES or not values:
            if order == directory.order:
                at = directory.entries[tag]
                entries.append(data[at : at + inline + (12 if big else 8)])
            continue
        packed = struct.pack(f"{order}{len(values)}{_CODES[kind]}", *values)
        field = packed.ljust(inline, b"\x00")
        if len(packed) > inline:
            field = struct.pack(order + wide, position)
            beside.append(packed + bytes(-len(packed) % 8))
            position += len(beside[-1])
        entries.append(struct.pack(f"{order}HH{wide}", tag, kind, len(values)) + field)
    header = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    if big:
        header += struct.pack(order + "HHQ", 8, 0, position)
    else:
        header += struct.pack(order + "I", position)
    count = struct.pack(order + ("Q" if big else "H"), len(entries))
    padding = bytes(-len(data) % 8)
    return b"".join(
        [header, memoryview(data)[len(header) :], padding, *beside, count, *entries, bytes(inline)]
    )
