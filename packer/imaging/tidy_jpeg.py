"""A JPEG without what libjpeg warns about although it costs no pixel.

libjpeg's warnings do not say whether pixels are damaged: an unknown version of JFIF and a missing
block are both one, and simplejpeg reports only the first. So everything outside of the pixel data
that could be warned about is removed or set to what libjpeg assumes; what it then warns about is
damage.
"""

from __future__ import annotations

import re
from typing import Final

from packer.imaging.heads.head import Head
from packer.imaging.heads.jpeg import EOI, MARKER, SOS, segments

_SOI: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_APP0, _APP14, _APP15, _COMMENT = 0xE0, 0xEE, 0xEF, 0xFE
#: Bytes of the whole segments, of which libjpeg reads no shorter ones.
_JFIF_BYTES: Final = 18
_ADOBE_BYTES: Final = 16
_JFIF: Final = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
_ADOBE: Final = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
#: What libjpeg takes an unknown transform for, by the known ones (jdapimin.c).
_TRANSFORMS: Final = {"cmyk": (0, 2)}
_OTHER_TRANSFORMS: Final = (0, 1)
#: LFs from which on a file in which each follows a CR was changed in transfer: one does so by
#: chance in 256.
_LINE_ENDS: Final = 8
#: Most bytes that libjpeg has taken over before it uses their bits, and one of which it used some.
_READ_AHEAD: Final = 9
#: Shorter than any block of a disk; photographs have no run of more than some ten zeros.
_LOST: Final = bytes(256)
_HUFFMAN: Final = 0xC4
_LEFT_OVER: Final = re.compile(r"(\d+) extraneous bytes before marker 0xd9")


def tidied(data: bytes, head: Head) -> bytes:
    """A JPEG without metadata and without stray bytes between its segments; what is unknown in
    its headers is what libjpeg takes it for. An end marker is added to a file that ends in pixel
    data.
    """
    kept = [_SOI]
    for marker, start, end in segments(data):
        segment = data[start:end]
        if marker == SOS:
            kept += [_scan_header(segment, head), _scans(data, end)]
        elif marker == EOI:
            kept.append(_END)
        elif marker == _APP0 and segment[4:9] == b"JFIF\x00" and len(segment) >= _JFIF_BYTES:
            kept.append(_JFIF)
        elif marker == _APP14 and segment[4:9] == b"Adobe" and len(segment) >= _ADOBE_BYTES:
            known = _TRANSFORMS.get(head.mode, _OTHER_TRANSFORMS)
            kept.append(_ADOBE + bytes([segment[15] if segment[15] in known else known[1]]))
        elif not _is_metadata(marker):
            kept.append(segment)
    return b"".join(kept)


def is_padding(complaint: str, data: bytes) -> bool:
    """Whether a complaint is about zeros between the pixels and the end marker: some cameras fill
    their files up. Other bytes there are pixel data that were not used up, and if many more zeros
    are there than were left over, the others were decoded: a block of the file was lost.

    Args:
        complaint: The first one, as libjpeg words it.
        data: What it is about, from `tidied`.
    """
    found = _LEFT_OVER.search(complaint)
    if found is None:
        return False
    scan = data.removesuffix(_END)
    zeros = len(scan) - len(scan.rstrip(b"\x00"))
    return 0 <= zeros - int(found[1]) <= _READ_AHEAD


def has_changed_line_ends(data: bytes) -> bool:
    """Whether a transfer in text mode has put a CR before each LF."""
    count = data.count(b"\n")
    return count >= _LINE_ENDS and count == data.count(b"\r\n")


def has_lost_block(data: bytes, head: Head) -> bool:
    """Whether zeros stand in place of pixel data: a block of a disk or a packet that was lost.
    One in fifty decodes to as many pixels as were lost, so that libjpeg has no complaint.

    Zeros are the code of a flat area if the shortest codes of the Huffman tables mean "no change"
    and "no more coefficients"; then, and in progressive files, they are taken for one.
    """
    if data.find(_LOST) < 0 or head.coding not in ("baseline", "extended"):
        return False
    flat, scan = True, b""
    for marker, start, end in segments(data):
        if marker == _HUFFMAN:
            flat = flat and _has_flat_zeros(data[start + 4 : end])
        elif marker == SOS:
            scan = _scans(data, end).removesuffix(_END).rstrip(b"\x00")  # without padding
    return not flat and _LOST in scan


def _has_flat_zeros(tables: bytes) -> bool:
    """Whether the first, shortest code of each of these Huffman tables (class and number, counts
    of 16 lengths, symbols) has the symbol 0.
    """
    position = 0
    while position + 17 < len(tables):
        if tables[position + 17] != 0:
            return False
        position += 17 + sum(tables[position + 1 : position + 17])
    return True


def _is_metadata(marker: int) -> bool:
    return _APP0 <= marker <= _APP15 or marker == _COMMENT


def _scan_header(segment: bytes, head: Head) -> bytes:
    """A sequential scan has all coefficients, whatever its last three bytes say."""
    if head.coding in ("baseline", "extended") and len(segment) > 5:
        at = 5 + 2 * segment[4]
        return segment[:at] + b"\x00\x3f\x00" + segment[at + 3 :]
    return segment


def _scans(data: bytes, position: int) -> bytes:
    """Everything from the first scan's pixel data to the end, without metadata."""
    kept = []
    while found := MARKER.search(data, position):
        kept.append(data[position : found.start()])
        marker = data[found.start() + 1]
        if marker == EOI:
            break
        position = found.end() + int.from_bytes(data[found.end() : found.end() + 2], "big")
        if not _is_metadata(marker):
            kept.append(data[found.start() : position])
    else:
        kept.append(data[position:])
    return b"".join([*kept, _END])
