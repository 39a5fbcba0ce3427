"""Read the central directory of a zip file, and its members' data by position."""

from __future__ import annotations

import calendar
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from packer.errors import DamageError, ImageError, SourceError
from packer.sources._member import Member, read_whole
from packer.types import display_path

#: APPNOTE.TXT 4.3.7: signature, then fields we have from the central directory already, then
#: the lengths of name and extra field; the data follows these two.
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_UTF8_NAME = 0x800
_ENCRYPTED = 0x1
_UNIX = 3
#: FAT and NTFS, as "version made by" has them.
_WRITE_BACKSLASHES = (0, 10)
#: Errors of zipfile for invalid offsets, and for extra fields that are cut short.
_BROKEN = (struct.error, EOFError, ValueError, OverflowError, IndexError)
#: Longest target of a link in bytes, as of any path (PATH_MAX).
_LONGEST_TARGET = 4096
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def members(fd: int, location: Path) -> Iterator[Member]:
    """Return all members in the order of the central directory.

    Raises:
        DamageError: The file is cut short or damaged.
        SourceError: A member is encrypted, or compressed other than by deflate.
    """
    length = os.fstat(fd).st_size
    try:
        with location.open("rb") as file, zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            # Some programs on Windows write \ between folders, against the standard; elsewhere a
            # name may have one. No archive of folders has neither.
            windows = not any("/" in info.orig_filename for info in infos)
            for info in infos:
                yield _member(fd, info, length, location, windows)
    except NotImplementedError as error:  # of a later version than zipfile knows
        raise SourceError(
            f"{location}: {error}", "unpack the archive and give the folder"
        ) from error
    except (zipfile.BadZipFile, zlib.error, *_BROKEN) as error:
        raise DamageError(
            f"{location}: damaged or cut short at {length} bytes: {error}", "get it again"
        ) from error


def read_member(fd: int, member: Member) -> bytes:
    """Return one member's data, decompressed.

    Raises:
        ImageError: The file ends before, or the data is damaged.
    """
    header = read_whole(fd, _LOCAL_HEADER.size, member.start)
    signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    if signature != b"PK\3\4":
        raise ImageError("unreadable", f"no zip header at byte {member.start} of the archive")
    start = member.start + _LOCAL_HEADER.size + name_bytes + extra_bytes
    data = read_whole(fd, member.stored, start)
    if member.method == zipfile.ZIP_DEFLATED:
        try:
            # One byte more than stated: enough to see that it is more, and no bomb.
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, member.size + 1)
        except zlib.error as error:
            raise ImageError("unreadable", f"damaged in the archive: {error}") from error
    if len(data) != member.size or zlib.crc32(data) != member.crc32:
        raise ImageError("unreadable", "damaged in the archive: its CRC-32 differs")
    return data


def _member(fd: int, info: zipfile.ZipInfo, length: int, location: Path, windows: bool) -> Member:
    name = _name(info)
    if windows and info.create_system in _WRITE_BACKSLASHES:
        name = name.replace(b"\\", b"/")
    mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
    if name.endswith(b"/"):
        return Member(name, "folder")
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        how = "encrypted" if info.flag_bits & _ENCRYPTED else f"of method {info.compress_type}"
        raise SourceError(
            f"{location}: member {display_path(name)!r} is {how}",
            "unpack the archive and give the folder",
        )
    if not 0 <= info.header_offset <= length - info.compress_size:
        raise DamageError(
            f"{location}: cut short: member {display_path(name)!r} at byte {info.header_offset}"
            f" needs {info.compress_size} bytes, the file ends at {length}",
            "get it again",
        )
    if stat.S_ISLNK(mode):
        return _link(fd, info, name, location)
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return Member(name, "special")
    try:
        stamp = calendar.timegm((*info.date_time, 0, 0, 0)) * 10**9
    except ValueError:  # month 0: what writes no dates leaves the field zero
        stamp = 0
    return _file(info, name, stamp)


def _file(info: zipfile.ZipInfo, name: bytes, stamp: int) -> Member:
    return Member(
        name,
        "file",
        info.header_offset,
        info.compress_size,
        info.file_size,
        stamp,
        info.compress_type,
        info.CRC,
    )


def _link(fd: int, info: zipfile.ZipInfo, name: bytes, location: Path) -> Member:
    if max(info.file_size, info.compress_size) > _LONGEST_TARGET:
        return Member(name, "special")
    try:
        return Member(name, "symlink", target=read_member(fd, _file(info, name, 0)))
    except ImageError as error:
        raise DamageError(
            f"{location}: link {display_path(name)!r}: {error.detail}", "get it again"
        ) from error


def _name(info: zipfile.ZipInfo) -> bytes:
    """The bytes that the archive has: zipfile decodes them as UTF-8 or code page 437."""
    encoding = "utf-8" if info.flag_bits & _UTF8_NAME else "cp437"
    return info.orig_filename.partition("\0")[0].encode(encoding)
