"""Head of a Netpbm file: PBM, PGM and PPM, plain and raw (P1 to P6).

Formats: the manual pages pbm(5), pgm(5) and ppm(5) of Netpbm.
"""

from __future__ import annotations

import re

from packer.errors import ImageError
from packer.imaging.heads.head import Head

#: White space and comments, each from "#" to the end of its line, before a number of the header.
_NUMBER = re.compile(rb"(?:[ \t\n\v\f\r]|#[^\r\n]*[\r\n])+(\d{1,10})")
_MAX_VALUE = 65_535
#: By the digit after "P": name, and whether pixels are text.
_KINDS = {
    b"1": ("PBM", True),
    b"2": ("PGM", True),
    b"3": ("PPM", True),
    b"4": ("PBM", False),
    b"5": ("PGM", False),
    b"6": ("PPM", False),
}


def parse(data: bytes) -> Head:
    """Head of the first picture of a Netpbm file.

    Raises:
        ImageError: undecodable.
        IndexError: The data ends within the header.
    """
    name, plain = _KINDS[data[1:2]]
    position, numbers = 2, []
    for _ in range(2 if name == "PBM" else 3):
        found = _NUMBER.match(data, position)
        if found is None:
            _refuse_garbage(data, position, name)
            raise IndexError
        numbers.append(int(found[1]))
        position = found.end()
    width, height, most = (*numbers, 1)[:3]
    if not (width and height and 0 < most <= _MAX_VALUE):
        raise ImageError("undecodable", f"{name} of {width} x {height} pixels up to {most}")
    # One byte of white space ends the header.
    end = position + 1 + _raster_bytes(name, width, height, most)
    return Head(
        kind="ppm",
        width=width,
        height=height,
        mode="rgb" if name == "PPM" else "gray",
        bits=16 if most > 255 else 8,
        animated=not plain and data[end : end + 1] == b"P" and data[end + 1 : end + 2] in _KINDS,
        complete=plain or end <= len(data),
    )


def _refuse_garbage(data: bytes, position: int, name: str) -> None:
    """Raise if something else than a number follows, but not if the data end."""
    rest = re.sub(rb"#[^\r\n]*", b"", data[position:]).strip()
    if rest and not rest.isdigit():
        raise ImageError("undecodable", f"{name} whose header holds {rest[:8]!r}")


def _raster_bytes(name: str, width: int, height: int, most: int) -> int:
    """Bytes of the pixels of a raw file."""
    if name == "PBM":
        return (width + 7) // 8 * height
    return width * height * (3 if name == "PPM" else 1) * (2 if most > 255 else 1)
