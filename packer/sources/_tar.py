"""Read the headers of a tar file by position; no data is read, nothing is unpacked.

Formats: v7, USTAR and pax (POSIX.1-2017, utility pax), GNU (long names, base-256 numbers).
`tarfile` is not used, as it keeps about 1 KB per member and accepts a truncated archive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packer.errors import DamageError, SourceError
from packer.sources._member import Member, pread, read_whole
from packer.types import display_path

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
#: Archives are padded with zeros to a multiple of the blocking factor, 10 KiB by default and
#: 1 MiB at the most in practice.
_PADDING = 1 << 20
#: Type flags: of plain files, of devices and FIFOs, of headers that describe the next member.
_FILES = (b"0", b"\0", b"7")
_SPECIALS = (b"3", b"4", b"6")
_META = (b"x", b"g", b"X", b"L", b"K")
#: Most bytes of such a header. Names take a few hundred; what else tar keeps of a file, extended
#: attributes in base64, takes a MiB at the very most.
_META_BYTES = 4 << 20
#: Most digits of a number in a pax record: no size or time in seconds has more.
_MOST_DIGITS = 30


def members(fd: int, location: Path) -> Iterator[Member]:
    """Return all members in archive order.

    Raises:
        DamageError: The file is cut short or holds no tar header where one should be.
        SourceError: It holds what only unpacking can restore (sparse files, several volumes).
    """
    length = os.fstat(fd).st_size
    offset = 0
    extended = _Extended()
    while True:
        header = pread(fd, _BLOCK, offset)
        if len(header) < _BLOCK:
            raise DamageError(
                f"{location}: ends at byte {length} without an end mark: cut short",
                "get it again",
            )
        if header == _ZEROS:
            _check_end(fd, offset, length, location)
            return
        kind = header[156:157]
        size = _checked_size(header, offset, location)
        if extended.says_anything and kind not in _META and extended.size is not None:
            size = extended.size
        if kind in (b"1", b"2", b"5", *_SPECIALS):
            size = 0  # these carry no data, whatever their size field says
        start = offset + _BLOCK
        offset = start + -(-size // _BLOCK) * _BLOCK
        if start + size > length:
            name = display_path(extended.path or _name(header))
            raise DamageError(
                f"{location}: cut short: member {name!r} at byte {start - _BLOCK} needs"
                f" {size} bytes, the file ends at {length}",
                "get it again",
            )
        if kind in _META:
            if size > _META_BYTES:
                raise DamageError(
                    f"{location}: a header of {size:,} bytes at byte {start - _BLOCK}: damaged, or"
                    " made to take memory",
                    "get it again",
                )
            extended.take(kind, pread(fd, size, start))
            continue
        member = _member(header, extended, start, size)
        _refuse_partial(b"S" if extended.own and extended.sparse else kind, member, location)
        if extended.own:
            extended = extended.after_member()
        if kind != b"V":  # a volume's label is not a member
            yield member


def read_member(fd: int, member: Member) -> bytes:
    """Return one member's data.

    Raises:
        ImageError: The file ends before.
    """
    return read_whole(fd, member.stored, member.start)


@dataclass
class _Extended:
    """Values for a member from the headers before its own header.

    Attributes:
        common: pax records that hold for all members from here on.
        own: pax records for the next member alone; GNU's long names in the same form.
    """

    common: dict[bytes, bytes] = field(default_factory=dict)
    own: dict[bytes, bytes] = field(default_factory=dict)

    def take(self, kind: bytes, data: bytes) -> None:
        if kind == b"L":
            self.own[b"path"] = data.rstrip(b"\0")
        elif kind == b"K":
            self.own[b"linkpath"] = data.rstrip(b"\0")
        elif kind == b"g":
            self.common |= _pax_records(data)
        else:
            self.own |= _pax_records(data)

    @property
    def says_anything(self) -> bool:
        """Mostly not: a million members take a third less time if nobody asks further."""
        return bool(self.own or self.common)

    def after_member(self) -> _Extended:
        return _Extended(self.common)

    def get(self, key: bytes) -> bytes:
        return self.own.get(key, self.common.get(key, b""))

    @property
    def path(self) -> bytes:
        return self.get(b"path")

    @property
    def size(self) -> int | None:
        text = self.get(b"size")
        if not text.isdigit():
            return None
        # A number of more digits is larger than any file; int() refuses 4,300 digits.
        return int(text[:_MOST_DIGITS])

    @property
    def stamp(self) -> int | None:
        text = self.get(b"mtime")
        if not 0 < len(text) <= _MOST_DIGITS:
            return None
        try:
            whole, _, part = text.partition(b".")
            nanoseconds = int(part[:9].ljust(9, b"0")) if part else 0
            seconds = int(whole)
        except ValueError:
            return None
        return seconds * 10**9 + (-nanoseconds if whole.startswith(b"-") else nanoseconds)

    @property
    def sparse(self) -> bool:
        return any(key.startswith(b"GNU.sparse.") for key in self.own)


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    """Records "LENGTH KEY=VALUE", each with a newline; LENGTH counts all of it."""
    records = {}
    start = 0
    while start < len(data):
        space = data.find(b" ", start, start + _MOST_DIGITS)
        digits = data[start : max(start, space)]
        end = start + int(digits) if digits.isdigit() else start
        if not start < space < end <= len(data):
            break  # padding, or no record: names then come from the member's own header
        key, _, value = data[space + 1 : end - 1].partition(b"=")
        records[key] = value
        start = end
    return records


def _member(header: bytes, extended: _Extended, start: int, size: int) -> Member:
    kind = header[156:157]
    name, target, stamp = _name(header), _text(header[157:257]), None
    if extended.says_anything:
        name, target = extended.path or name, extended.get(b"linkpath") or target
        stamp = extended.stamp
    if stamp is None:
        stamp = (_number(header[136:148]) or 0) * 10**9
    if kind in (b"5", b"D") or (kind in _FILES and name.endswith(b"/")):
        return Member(name, "folder")
    if kind == b"1":
        return Member(name, "hardlink", target=target)
    if kind == b"2":
        return Member(name, "symlink", target=target)
    if kind in _FILES:
        return Member(name, "file", start, size, size, stamp)
    return Member(name, "special")


def _refuse_partial(kind: bytes, member: Member, location: Path) -> None:
    what = {b"S": "a sparse file", b"M": "continued from another volume"}.get(kind)
    if what is not None:
        raise SourceError(
            f"{location}: member {display_path(member.name)!r} is {what}",
            "unpack the archive and give the folder",
        )


def _checked_size(header: bytes, offset: int, location: Path) -> int:
    """Return the size field of a header, after a check of the header's checksum."""
    stated = _number(header[148:156])
    blank = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    size = _number(header[124:136])
    if size is not None and size >= 0 and stated is not None:
        if stated == blank:
            return size
        if stated == blank - 256 * sum(byte > 127 for byte in header):  # as some old tars summed
            return size
    raise DamageError(f"{location}: no tar header at byte {offset}: damaged", "get it again")


def _check_end(fd: int, offset: int, length: int, location: Path) -> None:
    rest = pread(fd, min(length - offset, _PADDING), offset)
    if rest.strip(b"\0"):
        raise SourceError(
            f"{location}: holds more behind its end mark at byte {offset}"
            " (archives joined with cat?)",
            "unpack it with tar --ignore-zeros -xf and give the folder",
        )


def _name(header: bytes) -> bytes:
    name = _text(header[0:100])
    prefix = _text(header[345:500])
    # GNU's own magic is "ustar  " and has times in the prefix's place.
    if header[257:263] == b"ustar\0" and prefix:
        return prefix + b"/" + name
    return name


def _text(value: bytes) -> bytes:
    return value.partition(b"\0")[0]


def _number(value: bytes) -> int | None:
    """Parse an octal number, or GNU's base-256 (first bit set, two's complement); None if
    neither.
    """
    if value[0] & 0x80:
        return int.from_bytes(bytes([value[0] & 0x7F]) + value[1:], "big") - (
            (1 << (8 * len(value) - 1)) if value[0] & 0x40 else 0
        )
    try:
        return int(value.strip(b" \0") or b"0", 8)
    except ValueError:
        return None
