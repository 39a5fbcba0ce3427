"""Read a tar or zip archive as a source, in place: nothing is unpacked, nothing is written.

Its listing equals that of the unpacked folder, path by path and reason by reason; only the times
may differ, as zip stores them in steps of 2 s. If the archive's top is not the data set's top, see
`packer.sources._tree.Tree.enter`: a recipe's root is entered, and so is the single folder that
`tar cf x.tar mydata/` puts around everything.
"""

from __future__ import annotations

import os
import shlex
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from packer.errors import ImageError, SourceError
from packer.sources import MAX_FILE_BYTES, _tar, _zip, read_error
from packer.sources._candidates import REPORT_EVERY, is_picture
from packer.sources._member import Member
from packer.sources._numbers import read_numbers
from packer.sources._tree import Tree
from packer.types import Listing, display_path

#: Archives that are compressed as a whole: first bytes, and the command that makes a plain tar.
_COMPRESSED = {
    b"\x1f\x8b": "gzip -dk",
    b"\xfd7zXZ\0": "xz -dk",
    b"BZh": "bzip2 -dk",
    b"\x28\xb5\x2f\xfd": "zstd -dk",
    b"\x04\x22\x4d\x18": "lz4 -dk",
}
_TAR_SUFFIXES = (".tgz", ".tbz", ".tbz2", ".txz", ".tzst", ".tlz4")
#: Unsupported archives that are recognised by their first bytes, and the command that unpacks them.
_FOREIGN = {b"7z\xbc\xaf\x27\x1c": "7z x", b"Rar!": "unrar x"}
_HEAD_BYTES = 512
#: Files above this many bytes are neither a class number nor the manifest of a pack.
_SMALL_BYTES = 1 << 26

MAKES_FILES = False


def accepts(location: Path) -> bool:
    """Return whether `location` is a tar or zip file, or a compressed tar.

    A compressed one is accepted so that opening it can report how to make it readable.
    """
    name = location.name.lower()
    if not location.is_file():
        return False
    if name.endswith((".tar", ".zip", *_TAR_SUFFIXES)) or ".tar." in name:
        return True
    head = _head(location)
    return _is_zip(head) or head[257:262] == b"ustar" or _lookup(_FOREIGN, head) is not None


def open_source(location: Path, root: bytes = b"") -> ArchiveSource:
    """Open the archive at `location`; `root`: the folder inside it that is the top.

    Raises:
        SourceError: No such file, or an archive that cannot be read at random.
    """
    path = Path(os.path.abspath(location))  # noqa: PTH100 (resolve() would follow links)
    head = _head(path)
    if command := _lookup(_FOREIGN, head):
        raise SourceError(
            f"{location}: not a tar or zip file",
            f"{command} {shlex.quote(str(location))}, then give the folder",
        )
    if command := _lookup(_COMPRESSED, head):
        raise SourceError(
            f"{location}: is compressed as a whole, so its members cannot be read one by one",
            f"{command} {shlex.quote(str(location))}, then give the plain tar",
        )
    status = path.stat()
    return ArchiveSource(_Key(path, root, status.st_size, status.st_mtime_ns, ()))


class _Key(NamedTuple):
    """Key of a table: the same key gives the same table in every process.

    Attributes:
        path: Absolute path of the archive.
        root: Root folder of the recipe, or b"".
        size: Size of the archive in bytes.
        stamp: Modification time of the archive in ns.
        litter: Sorted paths that are not candidates.
    """

    path: Path
    root: bytes
    size: int
    stamp: int
    litter: tuple[bytes, ...]


class ArchiveSource:
    """The files in one archive.

    A process reads the archive's headers when it first needs them, and keeps them and one open
    file for all later uses: the source itself pickles into a few hundred bytes.
    """

    def __init__(self, key: _Key) -> None:
        self._key = key

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """See `packer.sources.Source.scan`.

        Raises:
            SourceError: The archive is missing or holds what only unpacking can restore.
            DamageError: The archive is damaged or cut short.
        """
        self._key = self._key._replace(litter=tuple(sorted(litter)))
        table = _table(self._key, report)
        listing = table.listing
        return replace(listing, numbers=read_numbers(listing, table.number_files, table.read_small))

    def read(self, path: bytes) -> bytes:
        """See `packer.sources.Source.read`."""
        return _table(self._key).read(path)


class _Table:
    """Offsets of an archive's candidates, and the open archive."""

    def __init__(self, key: _Key, report: Callable[[int], None] | None) -> None:
        self._path = key.path
        try:
            self._fd = os.open(key.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(key.path, error) from error
        weakref.finalize(self, os.close, self._fd)
        status = os.fstat(self._fd)
        if (status.st_size, status.st_mtime_ns) != (key.size, key.stamp):
            raise SourceError(f"{key.path}: changed while it was being read", "start again")
        try:
            is_zip = _is_zip(os.pread(self._fd, _HEAD_BYTES, 0))
            self._read_member = _zip.read_member if is_zip else _tar.read_member
            members = (_zip if is_zip else _tar).members(self._fd, key.path)
            tree = Tree(_reported(members, report), self._read_small, os.fsencode(key.path))
            self.listing, self._places = tree.listing(key.root, key.litter)
        except OSError as error:
            raise _unreadable(key.path, error) from error
        #: Paths of `.cls` files, and their offsets.
        self.number_files = tree.number_files

    def read_small(self, paths: Sequence[bytes]) -> Iterator[bytes]:
        """Return the content of some of `number_files`; b"" for damaged ones."""
        try:
            for path in paths:
                yield self._read_small(self.number_files[path])
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def _read_small(self, member: Member) -> bytes:
        if member.size > _SMALL_BYTES:
            return b""
        try:
            return self._read_member(self._fd, member)
        except ImageError:
            return b""

    def read(self, path: bytes) -> bytes:
        paths = self.listing.paths
        place = bisect_left(paths, path)
        if place == len(paths) or paths[place] != path:
            raise ImageError("unreadable", "not in the archive")
        member = Member(path, "file", *self._places[place].tolist())
        if member.size > MAX_FILE_BYTES:
            raise ImageError("too-large", f"{member.size} bytes, more than {MAX_FILE_BYTES}")
        try:
            return self._read_member(self._fd, member)
        except OSError as error:
            raise read_error(f"{self._path}: {display_path(path)}", error) from error


#: Tables kept: a conversion reads one archive; code that compares two needs a second.
_MOST_TABLES = 2
_tables: dict[_Key, _Table] = {}


def _table(key: _Key, report: Callable[[int], None] | None = None) -> _Table:
    """Return the table of an archive, and read it if this process has not done so.

    `report` is called at intervals with the number of pictures found so far.
    """
    table = _tables.get(key)
    if table is None:
        table = _Table(key, report)
        for old in list(_tables)[: 1 - _MOST_TABLES]:
            _tables.pop(old, None)
        _tables[key] = table
    return table


def _reported(members: Iterable[Member], report: Callable[[int], None] | None) -> Iterator[Member]:
    pictures = 0
    for number, member in enumerate(members, 1):
        pictures += is_picture(member.name)
        if report is not None and number % REPORT_EVERY == 0:
            report(pictures)
        yield member


def _head(location: Path) -> bytes:
    try:
        with location.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unreadable(location, error) from error


def _is_zip(head: bytes) -> bool:
    return head.startswith((b"PK\3\4", b"PK\5\6"))


def _lookup(commands: dict[bytes, str], head: bytes) -> str | None:
    return next((command for magic, command in commands.items() if head.startswith(magic)), None)


def _unreadable(location: Path, error: OSError) -> SourceError:
    return SourceError(f"{location}: cannot be read: {error.strerror or error}")
