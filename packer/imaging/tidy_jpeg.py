"""Remove from a JPEG everything that makes libjpeg warn although no pixel is affected.

libjpeg's warnings do not state whether pixels are damaged: an unknown version of JFIF and a missing
block both give a warning, and simplejpeg reports only the first. So everything outside the pixel
data that could cause a warning is removed or set to the value that libjpeg assumes; a warning that
remains means damage.
"""

from __future__ import annotations

import re
from typing import Final

from packer.imaging.heads.head import Head
from packer.imaging.heads.jpeg import EOI, MARKER, SOS, segments

_SOI: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_APP0, _APP14, _APP15, _COMMENT = 0xE0, 0xEE, 0xEF, 0xFE
#: Bytes of whole segments; libjpeg ignores shorter ones.
_JFIF_BYTES: Final = 18
_ADOBE_BYTES: Final = 16
_JFIF: Final = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
_ADOBE: Final = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
#: Known colour transforms, the last of which libjpeg assumes for an unknown one (jdapimin.c).
_TRANSFORMS: Final = {"cmyk": (0, 2)}
_OTHER_TRANSFORMS: Final = (0, 1)
#: Least number of LFs for the test for changed line ends, as one LF in 256 follows a CR by chance.
_LINE_ENDS: Final = 8
#: Most bytes that libjpeg reads before it uses their bits, plus one that is used in part.
_READ_AHEAD: Final = 9
#: A run of zeros shorter than any disk block; photographs have runs of at most about ten zeros.
_LOST: Final = bytes(256)
_HUFFMAN: Final = 0xC4
_LEFT_OVER: Final = re.compile(r"(\d+) extraneous bytes before marker 0xd9")


def tidied(data: bytes, head: Head) -> bytes:
    """Remove metadata and stray bytes between segments; set unknown header values to those that
    libjpeg assumes. Add an end marker to a file that ends in pixel data.
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


def is_padding(warning: str, data: bytes) -> bool:
    """Whether a warning is about zeros between the pixels and the end marker: some cameras pad
    their files. Other bytes there are unused pixel data; and if there are many more zeros than
    libjpeg left over, it decoded the others: a block of the file was lost.

    Args:
        warning: The first warning, in libjpeg's words.
        data: The file that caused it, from `tidied`.
    """
    found = _LEFT_OVER.search(warning)
    if found is None:
        return False
    scan = data.removesuffix(_END)
    zeros = len(scan) - len(scan.rstrip(b"\x00"))
    return 0 <= zeros - int(found[1]) <= _READ_AHEAD


def has_changed_line_ends(data: bytes) -> bool:
    """Whether a transfer in text mode has inserted a CR before each LF."""
    count = data.count(b"\n")
    return count >= _LINE_ENDS and count == data.count(b"\r\n")


def has_lost_block(data: bytes, head: Head) -> bool:
    """Whether zeros replace pixel data: a disk block or a packet was lost. One such file in fifty
    decodes to as many pixels as were lost, so that libjpeg gives no warning.

    Zeros encode a flat area if the shortest codes of the Huffman tables mean "no change" and "no
    more coefficients"; then, and in progressive files, they count as a flat area.
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
    """Set the last three bytes of a sequential scan's header: it has all coefficients."""
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
