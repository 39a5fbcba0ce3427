"""Head of an AVIF file (AV1 Image File Format 1.1; HEIF, ISO/IEC 23008-12; ISO/IEC 14496-12)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from packer.errors import ImageError
from packer.imaging.heads.head import Head

# Quarter turns against the clock, and exchange of top and bottom (0) or left and right (1)
# afterwards → orientation as EXIF counts.
_ORIENTATIONS = {
    (0, None): 1,
    (0, 0): 4,
    (0, 1): 2,
    (1, None): 8,
    (1, 0): 5,
    (1, 1): 7,
    (2, None): 3,
    (2, 0): 2,
    (2, 1): 4,
    (3, None): 6,
    (3, 0): 7,
    (3, 1): 5,
}
# Transfer characteristics of ITU-T H.273 for high dynamic range: PQ and HLG.
_HDR = (16, 18)
# More properties than this are an attack: a picture has about ten.
_MAX_BOXES = 4096


@dataclass(slots=True)
class _Found:
    """Values collected from the boxes."""

    primary: int = 0
    properties: list[tuple[bytes, bytes]] = field(default_factory=list)  # type, body
    associations: dict[int, list[int]] = field(default_factory=dict)  # item → property numbers
    auxiliary: set[int] = field(default_factory=set)  # items of which others are the opacity
    complete: bool = True


def parse(data: bytes) -> Head:
    """Head of an AVIF file.

    Raises:
        ImageError: undecodable, unsupported.
        struct.error, OverflowError, IndexError: The data ends too early.
    """
    found = _Found()
    meta = None
    for name, start, end in _boxes(data, 0, len(data)):
        found.complete = end <= len(data)
        if name == b"meta" and meta is None:
            meta = start + 4, min(end, len(data))
    if meta is None:
        raise ImageError("undecodable", "AVIF without a picture")
    _read_meta(found, data, *meta)
    own = [found.properties[n - 1] for n in found.associations.get(found.primary, []) if n > 0]
    values = dict(reversed(own))  # of two properties of a type, the first is used
    if b"ispe" not in values:
        raise ImageError("undecodable", "AVIF without a size")
    if b"clap" in values:
        raise ImageError("unsupported", "AVIF with a clean aperture, of which a part is shown")
    width, height = struct.unpack_from(">II", values[b"ispe"], 4)
    if not (width and height):
        raise ImageError("undecodable", f"AVIF of {width} x {height} pixels")
    turns = values.get(b"irot", b"\x00")[0] & 3
    mirror = values[b"imir"][0] & 1 if b"imir" in values else None
    return Head(
        kind="avif",
        width=width,
        height=height,
        orientation=_ORIENTATIONS[turns, mirror],
        bits=values[b"pixi"][5] if b"pixi" in values else 8,
        alpha=found.primary in found.auxiliary,
        animated=data[8:12] == b"avis",
        icc=_profile([body for name, body in own if name == b"colr"]),
        complete=found.complete,
    )


def _boxes(data: bytes, position: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """(type, start of the body, end) of the boxes between two offsets."""
    for _ in range(_MAX_BOXES):
        if position + 8 > stop:
            return
        size, name = struct.unpack_from(">I4s", data, position)
        start = position + 8
        if size == 1:
            size = struct.unpack_from(">Q", data, start)[0]
            start += 8
        end = position + size if size else stop
        if end < start:
            raise ImageError("undecodable", "AVIF with a broken box")
        yield name, start, end
        position = end


def _read_meta(found: _Found, data: bytes, start: int, stop: int) -> None:
    for name, body, end in _boxes(data, start, stop):
        if name == b"pitm":
            found.primary = _number(data, body + 4, wide=data[body] > 0)
        elif name == b"iprp":
            for inner, at, inner_end in _boxes(data, body, min(end, stop)):
                if inner == b"ipco":
                    found.properties += [
                        (kind, data[first:last])
                        for kind, first, last in _boxes(data, at, min(inner_end, stop))
                    ]
                elif inner == b"ipma":
                    _read_associations(found, data, at)
        elif name == b"iref":
            wide = data[body] > 0
            for inner, at, _ in _boxes(data, body + 4, min(end, stop)):
                if inner == b"auxl":  # its item, how many it belongs to, and these
                    found.auxiliary.add(_number(data, at + (6 if wide else 4), wide=wide))


def _read_associations(found: _Found, data: bytes, position: int) -> None:
    """ItemPropertyAssociation: for each item the numbers of its properties, from 1."""
    version, wide = data[position], data[position + 3] & 1
    items: int = struct.unpack_from(">I", data, position + 4)[0]
    position += 8
    for _ in range(min(items, _MAX_BOXES)):
        item = _number(data, position, wide=version > 0)
        position += 4 if version else 2
        count = data[position]
        position += 1
        form = f">{count}{'H' if wide else 'B'}"
        numbers = struct.unpack_from(form, data, position)
        position += struct.calcsize(form)
        mask = 0x7FFF if wide else 0x7F  # the highest bit: whether it is essential
        chosen = [number & mask for number in numbers]
        if max(chosen, default=0) > len(found.properties):
            raise ImageError("undecodable", "AVIF with a property that is not there")
        found.associations[item] = chosen


def _number(data: bytes, position: int, *, wide: bool) -> int:
    number: int = struct.unpack_from(">I" if wide else ">H", data, position)[0]
    return number


def _profile(colours: list[bytes]) -> bytes:
    """The ICC profile among the descriptions of colour.

    Raises:
        ImageError: unsupported: high dynamic range, which has no agreed way to 8 bits.
    """
    profile = b""
    for body in colours:
        if body[:4] in (b"prof", b"rICC"):
            profile = profile or body[4:]
        elif body[:4] == b"nclx" and struct.unpack_from(">H", body, 6)[0] in _HDR:
            raise ImageError("unsupported", "AVIF of high dynamic range (PQ or HLG)")
    return profile
