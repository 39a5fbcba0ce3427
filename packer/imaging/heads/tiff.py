"""Head of a TIFF file, and the orientation in an EXIF block, which is a TIFF file too.

Formats: TIFF 6.0 (Adobe, 1992), BigTIFF (libtiff), EXIF (CIPA DC-008).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from packer.errors import ImageError
from packer.imaging.heads.head import Head

#: Errors of reading at an invalid offset that a file contains.
BROKEN = (struct.error, OverflowError)

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER = 256, 257, 258, 259, 262, 266
SAMPLES, PLANAR, COLOUR_MAP, EXTRA, FORMAT = 277, 284, 320, 338, 339
_ORIENTATION, _ICC = 274, 34675
#: Offsets and byte counts of strips, then of tiles.
DATA_TAGS = ((273, 279), (324, 325))
# struct codes of the field types that are read here: BYTE, SHORT, LONG, UNDEFINED, LONG8.
_TYPES = {1: "B", 3: "H", 4: "I", 7: "B", 16: "Q"}
# No picture has more tags; a larger count is garbage.
_MAX_TAGS = 4096
# Values of one tag that are read: enough for the strips of any picture within the pixel limit.
_MAX_VALUES = 1 << 22
_MODES = {0: "gray", 1: "gray", 2: "rgb", 3: "palette", 5: "cmyk", 6: "ycc"}


@dataclass(frozen=True, slots=True)
class Directory:
    """One image file directory.

    Attributes:
        data: The file.
        order: Byte order in `struct` notation, < or >.
        big: Whether it is a BigTIFF.
        tags: By number: (type, count, offset of the values).
        entries: By number: offset of the tag's entry in the directory.
        following: Offset of the next directory, 0 if there is none.
    """

    data: bytes
    order: str
    big: bool
    tags: dict[int, tuple[int, int, int]]
    entries: dict[int, int]
    following: int

    def values(self, tag: int) -> tuple[int, ...]:
        """Values of a tag; empty if it is absent or broken."""
        kind, count, offset = self.tags.get(tag, (0, 0, 0))
        code = _TYPES.get(kind)
        if code is None or count > _MAX_VALUES:
            return ()
        try:
            return struct.unpack_from(f"{self.order}{count}{code}", self.data, offset)
        except BROKEN:
            return ()

    def first(self, tag: int, default: int) -> int:
        """First value of a tag, or the default."""
        values = self.values(tag)
        return values[0] if values else default


def read_directory(data: bytes) -> Directory:
    """The first directory.

    Raises:
        struct.error, OverflowError: The data ends before it.
    """
    order = "<" if data[:2] == b"II" else ">"
    big = struct.unpack_from(order + "H", data, 2)[0] == 43
    offset: int = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)[0]
    count: int = struct.unpack_from(order + ("Q" if big else "H"), data, offset)[0]
    start, entry_size, inline = offset + (8 if big else 2), 20 if big else 12, 8 if big else 4
    tags: dict[int, tuple[int, int, int]] = {}
    entries: dict[int, int] = {}
    for i in range(min(count, _MAX_TAGS)):
        entry = start + i * entry_size
        tag, kind, values = struct.unpack_from(order + ("HHQ" if big else "HHI"), data, entry)
        value = entry + entry_size - inline
        size = struct.calcsize(_TYPES.get(kind, "B")) * values
        if size > inline:
            value = struct.unpack_from(order + ("Q" if big else "I"), data, value)[0]
        tags.setdefault(tag, (kind, values, value))
        entries.setdefault(tag, entry)
    end = start + min(count, _MAX_TAGS) * entry_size
    following = data[end : end + inline]
    return Directory(data, order, big, tags, entries, int.from_bytes(following, "little"))


def exif_orientation(block: bytes) -> int:
    """Orientation 1..8 of an EXIF block, with or without its "Exif" prefix; 1 if the block holds
    no valid orientation.
    """
    block = block.removeprefix(b"Exif\x00\x00")
    if block[:4] not in (b"II*\x00", b"MM\x00*"):
        return 1
    try:
        value = read_directory(block).first(_ORIENTATION, 1)
    except BROKEN:
        return 1
    return value if 1 <= value <= 8 else 1


def parse(data: bytes) -> Head:
    """Head of a TIFF file.

    Raises:
        ImageError: undecodable.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    directory = read_directory(data)
    width, height = directory.first(WIDTH, 0), directory.first(HEIGHT, 0)
    if not (width and height):
        raise ImageError("undecodable", "TIFF without a size")
    orientation = directory.first(_ORIENTATION, 1)
    mode = _MODES.get(directory.first(PHOTOMETRIC, -1), "rgb")
    return Head(
        kind="tiff",
        width=width,
        height=height,
        orientation=orientation if 1 <= orientation <= 8 else 1,
        mode="float" if directory.first(FORMAT, 1) == 3 else mode,
        bits=directory.first(BITS, 1),
        alpha=any(value in (1, 2) for value in directory.values(EXTRA)),
        animated=directory.following != 0,
        icc=bytes(directory.values(_ICC)) if directory.tags.get(_ICC, (0,))[0] in (1, 7) else b"",
        complete=_data_end(directory) <= len(data),
    )


def _data_end(directory: Directory) -> int:
    """Offset at which the last strip or tile ends."""
    end = 0
    for offsets, counts in DATA_TAGS:
        pairs = zip(directory.values(offsets), directory.values(counts), strict=False)
        end = max([end, *(offset + count for offset, count in pairs)])
    return end
