"""Read a folder as a source: pictures in class folders, as torchvision's ImageFolder does.

Links to files and folders are followed, as torchvision follows them (`os.walk(followlinks=True)`),
except a link to a folder that it lies in itself, which would never end.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from packer.errors import ImageError, SourceError
from packer.sources import MAX_FILE_BYTES, _packs, changed, read_error
from packer.sources._candidates import Candidates, FolderLinks, clamp, is_hidden
from packer.sources._numbers import LONGEST, read_numbers
from packer.types import Listing, display_path

T = TypeVar("T")

#: Errors of a link that leads nowhere; other errors mean trouble with the storage.
LEADS_NOWHERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
#: Requests to the file system at a time: one after the other, each would cost a round trip on NFS.
_IN_FLIGHT = 16
#: Paths requested at a time; bounds the memory of waiting requests.
_SLICE = 4096

MAKES_FILES = False


def accepts(location: Path) -> bool:
    """Return whether `location` is a folder."""
    return location.is_dir()


def open_source(location: Path, root: bytes = b"") -> FolderSource:
    """Return the folder at `location`, or `root` inside it if there is such a folder.

    Raises:
        SourceError: No such folder.
    """
    top = os.path.abspath(os.fsencode(location))  # noqa: PTH100 (bytes: Path takes text alone)
    inner = os.path.join(top, root)  # noqa: PTH118
    if root and os.path.isdir(inner):  # noqa: PTH112
        top = inner
    if not os.path.isdir(top):  # noqa: PTH112
        raise SourceError(f"{location}: no such folder")
    return FolderSource(top)


class _Folder(NamedTuple):
    """A folder that is still to be scanned.

    Attributes:
        prefix: Its path relative to the top, ending in "/"; b"" for the top.
        chain: (device, inode) of it and of the folders it was reached through.
        links: How many of these are links.
    """

    prefix: bytes
    chain: frozenset[tuple[int, int]]
    links: int = 0


class FolderSource:
    """The files below one folder.

    Args:
        top: Absolute path of the folder.
    """

    def __init__(self, top: bytes) -> None:
        self.top = top
        # Folder inside of `top` that the paths of the last scan are relative to.
        self._inside = b""
        # Modification time of the newest file found, in ns: newer files changed later. This is sent
        # to worker processes; the times of all files would be too large.
        self._newest: int | None = None

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """See `packer.sources.Source.scan`.

        Each folder is listed once, and each candidate's size taken from its directory entry:
        on NFS the listing includes the attributes, so this costs no round trip per file.
        """
        found = Candidates(litter, report)
        avoided = _packs.avoid(self.top, output)
        try:
            waiting = [_Folder(b"", frozenset([_packs.identity_of(os.stat(self.top))]))]  # noqa: PTH116
        except OSError as error:
            raise _unreadable(self.top, error) from error
        links = FolderLinks(self.top)
        while waiting:
            folder = waiting.pop()
            links.enter(folder.prefix, folder.links)
            waiting += self._scan_folder(folder, found, avoided)
        return self._finish(found)

    def _scan_folder(
        self, folder: _Folder, found: Candidates, avoided: _packs.Avoided
    ) -> list[_Folder]:
        """Add the entries of a folder to the listing; return the folders to descend into."""
        path = os.path.join(self.top, folder.prefix)  # noqa: PTH118
        before = found.mark()
        inner, of_a_pack, parts_of_packs = [], [], _packs.NAMES
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name in parts_of_packs:
                        of_a_pack.append(entry)
                    if (deeper := _take(entry, folder, found, avoided)) is not None:
                        inner.append(deeper)
            if of_a_pack and _packs.is_pack_folder(path, of_a_pack):
                found.forget_since(before)
                found.pass_over_pack(folder.prefix, self.top)
                return []
        except OSError as error:
            raise _unreadable(path, error) from error
        return inner

    def _finish(self, found: Candidates) -> Listing:
        """Return the listing, with the numbers of `.cls` files; `read` accepts its paths from now
        on.
        """
        listing = found.listing()[0]
        self._inside = listing.top
        self._newest = int(listing.stamps.max(initial=0))
        read = partial(side_by_side, self._read_head)
        return replace(listing, numbers=read_numbers(listing, found.number_files, read))

    def _read_head(self, path: bytes) -> bytes:
        """Return the beginning of a small file; b"" if it does not exist or may not be read."""
        full = os.path.join(self.top, path)  # noqa: PTH118
        try:
            with io.FileIO(full, "rb", opener=_open) as file:
                return file.read(LONGEST + 1) or b""
        except OSError as error:
            reason = read_error(display_path(full), error)
            if isinstance(reason, ImageError) or error.errno in LEADS_NOWHERE:
                return b""
            raise reason from error

    def read(self, path: bytes) -> bytes:
        """See `packer.sources.Source.read`."""
        full = os.path.join(self.top, self._inside, path)  # noqa: PTH118
        try:
            try:
                return self._read(full)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                return self._read(full)  # an NFS client's cached entry for the name is outdated
        except OSError as error:
            raise read_error(display_path(full), error) from error

    def _read(self, full: bytes) -> bytes:
        with io.FileIO(full, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise changed(display_path(full), "is no regular file any more")
            if status.st_size > MAX_FILE_BYTES:
                raise ImageError("too-large", f"{status.st_size} bytes, more than {MAX_FILE_BYTES}")
            data = file.readall()
        if len(data) != status.st_size:
            raise changed(display_path(full), "changed while it was read")
        if self._newest is not None and clamp(status.st_mtime_ns) > self._newest:
            raise changed(display_path(full), "changed since the source was scanned")
        return data


def _open(path: str | bytes, flags: int) -> int:
    """Open a file that was a regular one; do not block if a pipe has taken its place."""
    return os.open(path, flags | os.O_NONBLOCK)


def _take(
    entry: os.DirEntry[bytes],
    folder: _Folder,
    found: Candidates,
    avoided: _packs.Avoided,
) -> _Folder | None:
    """Add one entry to the listing; return it if it is a folder to descend into."""
    path = folder.prefix + entry.name
    if is_hidden(entry.name, folder=False):
        found.ignore("hidden", path)
        return None
    status = None
    if entry.is_symlink():
        try:
            status = entry.stat()
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise
            found.add_broken_link(path, os.readlink(entry.path))  # noqa: PTH115
            return None
        is_folder = stat.S_ISDIR(status.st_mode)
        is_file = stat.S_ISREG(status.st_mode)
    else:
        is_folder, is_file = entry.is_dir(), entry.is_file()
    if is_folder:
        return _take_folder(entry, folder, found, avoided)
    if not is_file:
        found.ignore("special", path)
    elif found.wants(path):
        status = status or entry.stat()
        found.add(path, status.st_size, status.st_mtime_ns, status.st_ino)
    return None


def _take_folder(
    entry: os.DirEntry[bytes],
    folder: _Folder,
    found: Candidates,
    avoided: _packs.Avoided,
) -> _Folder | None:
    path = folder.prefix + entry.name
    if is_hidden(entry.name, folder=True):
        found.ignore("hidden", path)
        return None
    identity = _packs.identity_of(entry.stat())
    if avoided.is_met(path, identity):
        return None
    if identity in folder.chain:
        found.ignore("link-loop", path)
        return None
    found.add_folder(path)
    links = folder.links + entry.is_symlink()
    return _Folder(path + b"/", folder.chain | {identity}, links)


def side_by_side(ask: Callable[[bytes], T], paths: Sequence[bytes]) -> Iterator[T]:
    """Yield the answers in order, with several requests at a time."""
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        for start in range(0, len(paths), _SLICE):
            yield from pool.map(ask, paths[start : start + _SLICE])


def _unreadable(path: bytes, error: OSError) -> SourceError:
    place = error.filename if isinstance(error.filename, bytes) else path
    return SourceError(
        f"{display_path(place)}: cannot be read: {error.strerror or error}",
        "check its permissions: leaving it out would lose samples silently",
    )
