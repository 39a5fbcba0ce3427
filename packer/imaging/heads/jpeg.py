"""Head of a JPEG file (ITU-T T.81 annex B; JFIF; Adobe's APP14; ICC.1 annex B.4)."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from packer.errors import ImageError
from packer.imaging.heads.head import Head
from packer.imaging.heads.tiff import exif_orientation

EOI, SOS = 0xD9, 0xDA
#: A marker within entropy-coded data: not a stuffed zero, restart marker or fill byte.
MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
#: Scans of a picture, each of which goes through all of it: libjpeg writes 10, mozjpeg's search
#: for the smallest file tries 64. Fuzzers of libjpeg-turbo stop at 500; 200 over a picture of 60
#: megapixels take a minute.
MAX_SCANS: Final = 100
#: Bytes of a JPEG up to its first scan: without metadata there are 600.
_USUAL_HEAD: Final = 2048
# Markers without a length: TEM, RST0..7, SOI.
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
# Quantisation and Huffman tables, which `Head` does not need: most of a file's segments.
_TABLES = frozenset((0xC4, 0xDB))
_CODING = {
    0xC0: "baseline",
    0xC1: "extended",
    0xC2: "progressive",
    0xC3: "lossless",
    0xC5: "hierarchical",
    0xC6: "hierarchical",
    0xC7: "hierarchical",
    0xC9: "arithmetic",
    0xCA: "arithmetic",
    0xCB: "lossless",
    0xCD: "hierarchical",
    0xCE: "hierarchical",
    0xCF: "hierarchical",
}
# Where a scan holds whole blocks, so that one is enough.
_SEQUENTIAL = ("baseline", "extended")
_ONE_SCAN = frozenset((0xC0, 0xC1))
# Segments that say nothing of scans: tables, restart intervals, metadata.
_PLAIN = frozenset((*_TABLES, 0xDD, *range(0xE0, 0xF0), 0xFE))
# Sampling factors of the first component where the two others have 1x1.
_SUBSAMPLING = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0"}
# More segments than this before the first scan is an attack: real files have tens, and an ICC
# profile at most 255.
_MAX_SEGMENTS = 4096


@dataclass(slots=True)
class _Found:
    """Values collected from the segments before the first scan."""

    coding: str = ""
    bits: int = 8
    width: int = 0
    height: int = 0
    components: list[tuple[int, int]] = field(default_factory=list)  # (identifier, sampling)
    jfif: bool = False
    adobe: int = -1
    exif: bytes | None = None
    icc: list[tuple[int, int, bytes]] = field(default_factory=list)  # number, count, part


def parse(data: bytes) -> Head:
    """Head of a JPEG file.

    Raises:
        ImageError: truncated, undecodable.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    found, scan = _read_segments(data)
    complete = data.rfind(b"\xff\xd9", scan) >= 0
    if not found.coding:
        if complete:
            raise ImageError("undecodable", "JPEG without a frame header")
        raise ImageError("truncated", "JPEG that ends before its frame header")
    if not (found.width and found.height and found.components):
        raise ImageError("undecodable", f"JPEG of {found.width} x {found.height} pixels")
    _require_few_scans(data, scan, found)
    return Head(
        kind="jpeg",
        width=found.width,
        height=found.height,
        orientation=exif_orientation(found.exif) if found.exif else 1,
        mode=_mode(found),
        bits=found.bits,
        icc=_profile(found.icc),
        complete=complete,
        coding=found.coding,
        subsampling=_subsampling(found),
    )


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, start, end) of each segment up to the header of the first scan (SOS) or the end of
    the picture (EOI), inclusive. As in libjpeg, bytes between segments are skipped. The last
    segment may extend beyond the end of a truncated file.

    Raises:
        ImageError: undecodable (too many segments).
        struct.error: The data end within a segment's length.
    """
    position, size = 2, len(data)
    for _ in range(_MAX_SEGMENTS):
        position = data.find(b"\xff", position) + 1
        if position == 0:
            return
        while position < size and data[position] == 0xFF:
            position += 1
        if position == size:
            return
        marker = data[position]
        start = position - 1
        position += 1
        if marker == 0 or marker in _BARE:
            continue
        if marker == EOI:
            yield marker, start, position
            return
        position += max(struct.unpack_from(">H", data, position)[0], 2)
        yield marker, start, position
        if marker == SOS:
            return
    raise ImageError("undecodable", f"JPEG with more than {_MAX_SEGMENTS} segments before a scan")


def require_few_scans(payload: bytes | memoryview) -> None:
    """Refuse a JPEG of more than `MAX_SCANS` scans: for readers, before they decode one. It takes
    some microseconds for one of a single scan.

    Raises:
        ImageError: too-large.
    """
    if not _has_one_scan(bytes(payload[:_USUAL_HEAD])):
        _refuse_many_scans(bytes(payload), 2)


def _has_one_scan(start: bytes) -> bool:
    """Whether the first bytes of a JPEG say that its first scan has all there is. Plain loops, as
    readers ask for each picture.
    """
    components, position = 0, 2
    with contextlib.suppress(IndexError):  # they end within the head
        while start[position] == 0xFF:
            marker = start[position + 1]
            if marker == SOS:
                return 0 < components <= start[position + 4]
            if marker in _ONE_SCAN:
                components = start[position + 9]
            elif marker not in _PLAIN:
                return False
            position += 2 + (start[position + 2] << 8 | start[position + 3])
    return False


def _read_segments(data: bytes) -> tuple[_Found, int]:
    """Read the segments before the first scan; return also the offset where reading stopped."""
    found = _Found()
    for marker, start, end in segments(data):
        if marker in (EOI, SOS):
            return found, start
        if marker not in _TABLES:
            _read_segment(found, marker, data[start + 4 : end])
    return found, len(data)


def _read_segment(found: _Found, marker: int, body: bytes) -> None:
    if marker in _CODING and not found.coding:
        found.bits, found.height, found.width, count = struct.unpack_from(">BHHB", body)
        found.components = [
            (identifier, sampling)
            for identifier, sampling, _ in struct.iter_unpack("BBB", body[6 : 6 + 3 * count])
        ]
        found.coding = _CODING[marker]
    elif marker == 0xE0 and body.startswith(b"JFIF\x00"):
        found.jfif = True
    elif marker == 0xE1 and body.startswith(b"Exif\x00\x00") and found.exif is None:
        found.exif = body
    elif marker == 0xE2 and body.startswith(b"ICC_PROFILE\x00") and len(body) > 14:
        found.icc.append((body[12], body[13], body[14:]))
    elif marker == 0xEE and body.startswith(b"Adobe") and len(body) >= 12:
        found.adobe = body[11]


def _require_few_scans(data: bytes, scan: int, found: _Found) -> None:
    several = found.coding not in _SEQUENTIAL
    if not several:  # a sequential file has several if its first has not all components
        several = scan + 4 < len(data) and data[scan + 4] < len(found.components)
    if several:
        _refuse_many_scans(data, scan)


def _refuse_many_scans(data: bytes, position: int) -> None:
    if data.count(b"\xff\xda", position) > MAX_SCANS:
        count = sum(marker == SOS for marker in _later_markers(data, position))
        if count > MAX_SCANS:
            raise ImageError("too-large", f"JPEG of {count} scans, more than {MAX_SCANS}")


def _later_markers(data: bytes, position: int) -> Iterator[int]:
    """Markers from a position to the end of the picture, without restart markers."""
    while found := MARKER.search(data, position):
        marker = data[found.start() + 1]
        if marker == EOI:
            return
        yield marker
        position = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")


def _profile(parts: list[tuple[int, int, bytes]]) -> bytes:
    """The profile whose parts these are (ICC.1 annex B.4: numbered from 1, each with their count).
    If a part is missing or occurs twice, return bytes that are reported as an invalid profile.
    """
    numbers = sorted(number for number, _, _ in parts)
    counts = {count for _, count, _ in parts}
    if parts and (numbers != list(range(1, len(parts) + 1)) or counts != {len(parts)}):
        return b"\x00"
    return b"".join(part for _, _, part in sorted(parts))


def _mode(found: _Found) -> str:
    """Colour space as libjpeg decides it (jdapimin.c, default_decompress_parms)."""
    count = len(found.components)
    if count == 1:
        return "gray"
    if count == 4:
        return "cmyk"
    if found.jfif:
        return "ycc"
    if found.adobe >= 0:
        return "rgb" if found.adobe == 0 else "ycc"
    return "rgb" if [number for number, _ in found.components] == [0x52, 0x47, 0x42] else "ycc"


def _subsampling(found: _Found) -> str:
    factors = [(sampling >> 4, sampling & 15) for _, sampling in found.components]
    if len(factors) != 3 or factors[1:] != [(1, 1), (1, 1)]:
        return ""
    return _SUBSAMPLING.get(factors[0], "")
