"""A list of paths as a source: what `find … -print0` prints, or a text file of such lines.

The paths are those of files below one folder, the top; relative to it, they are what the same
files have in a `packer.sources.folder` source: the same rules, and the same pack if the list is of
all its files. The order of the list means nothing. Links are followed; ".." is taken away as text.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packer.errors import ImageError, SourceError
from packer.sources._candidates import Candidates, is_hidden
from packer.sources._tree import SPLIT_NAMES
from packer.sources.folder import FolderSource
from packer.types import Listing, display_path

#: File names that are taken for a list without being told: of a table one could not know.
_SUFFIXES = (".txt", ".lst", ".list")
#: Questions for a file's size in flight: one at a time, each costs a round trip on NFS.
_IN_FLIGHT = 16
#: Paths asked for in one go; bounds what waits in memory.
_SLICE = 4096
#: More files than that which are not there mean a wrong folder, not a few lost files. (Their names
#: travel to the workers with every task.)
_MAX_MISSING = 1000


def accepts(location: Path) -> bool:
    """Whether `location` is a file whose name is that of a list."""
    return location.name.lower().endswith(_SUFFIXES) and location.is_file()


def open_source(location: Path, root: bytes = b"") -> ListedSource:
    """The files that the lines of `location` name, relative to the working directory.

    Raises:
        SourceError: It cannot be read, or is no list.
    """
    return list_source(read_list(location), os.path.join(os.fsencode(Path.cwd()), root))  # noqa: PTH118


def read_list(location: Path) -> bytes:
    """The content of a list.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        return location.read_bytes()
    except OSError as error:
        raise SourceError(f"{location}: cannot be read: {error.strerror or error}") from error


def list_source(content: bytes, top: bytes, *, null: bool = False) -> ListedSource:
    """The files that a list names.

    Args:
        content: Of the list. Paths in it are relative to the working directory, or absolute.
        top: The folder they lie in, whose folders are the classes or splits.
        null: Paths end in a zero byte, else in a newline.

    Raises:
        SourceError: No such folder, a path out of it, a path twice, or no path at all.
    """
    top = os.path.abspath(top)  # noqa: PTH100 (bytes: Path takes text alone)
    if not os.path.isdir(top):  # noqa: PTH112
        raise SourceError(f"{display_path(top)}: no such folder")
    if not null and b"\0" in content:
        raise SourceError("the list of paths holds zero bytes", "with --null, paths end in them")
    lines = content.split(b"\0") if null else content.split(b"\n")
    if not null:
        lines = [line.removesuffix(b"\r") for line in lines]
    paths = sorted(_relative(line, top) for line in lines if line)
    if not paths:
        raise SourceError("the list of paths is empty")
    for earlier, later in itertools.pairwise(paths):
        if earlier == later:
            raise SourceError(
                f"{display_path(later)}: twice in the list of paths", "sort -u leaves one of each"
            )
    return ListedSource(top, paths)


def _relative(line: bytes, top: bytes) -> bytes:
    """One line of the list as a path relative to `top`; b"" for `top` itself."""
    full = os.path.abspath(line)  # noqa: PTH100
    if full == top:
        return b""
    prefix = top if top.endswith(b"/") else top + b"/"
    if not full.startswith(prefix):
        raise SourceError(
            f"{display_path(line)}: in the list of paths, but not in {display_path(top)}",
            "packer convert --src names the folder that all of them lie in",
        )
    return full[len(prefix) :]


class ListedSource(FolderSource):
    """The files of a list.

    Args:
        top: Absolute path of the folder they lie in.
        paths: Relative to it, sorted, each once.
    """

    def __init__(self, top: bytes, paths: Sequence[bytes]) -> None:
        super().__init__(top)
        self.paths = paths
        self._missing: frozenset[bytes] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        """Worker processes read; the list itself stays where it was scanned."""
        return {**self.__dict__, "paths": ()}

    def scan(
        self, litter: Collection[bytes] = (), hear: Callable[[int], None] | None = None
    ) -> Listing:
        """See `packer.sources.Source.scan`. A file that is not there is a candidate nevertheless:
        it will be skipped, with a line in the ledger.

        Raises:
            SourceError: Also if very many are not there.
        """
        found = Candidates(litter, hear)
        folders: set[bytes] = set()
        hidden: set[bytes] = set()
        visible = []
        for path in self.paths:
            if (above := _hidden_part(path)) is not None:
                hidden.add(above)
            elif path:
                visible.append(path)
                folders.update(_folders_above(path))
        missing = []
        for path, status in self._statuses(visible):
            if status is not None and stat.S_ISDIR(status.st_mode):
                system = is_hidden(path.rpartition(b"/")[2], folder=True)
                (hidden if system else folders).add(path)
            elif status is not None and not stat.S_ISREG(status.st_mode):
                found.ignore("special", path)
            elif found.wants(path):
                if status is None:
                    missing.append(path)
                    found.add(path, 0, 0)
                else:
                    found.add(path, status.st_size, status.st_mtime_ns, status.st_ino)
        for above in sorted(hidden):
            found.ignore("hidden", above)
        for folder in sorted(folders):
            found.add_folder(folder)
        self._missing = self._tolerated(missing)
        listing = found.listing()[0]
        self._newest = int(listing.stamps.max(initial=0))
        return listing

    def read(self, path: bytes) -> bytes:
        """See `packer.sources.Source.read`."""
        if path in self._missing:
            raise ImageError("unreadable", "no such file when the list was read")
        return super().read(path)

    def single_folder(self) -> bytes | None:
        """The one top folder, if all pictures of the list lie in folders of it; no split's name."""
        known = Candidates()
        pictures = [path for path in self.paths if known.wants(path)]
        tops = {path.partition(b"/")[0] for path in pictures}
        if len(tops) != 1 or tops & SPLIT_NAMES or any(p.count(b"/") < 2 for p in pictures):
            return None
        return tops.pop()

    def _statuses(self, paths: Sequence[bytes]) -> Iterator[tuple[bytes, os.stat_result | None]]:
        """What each path is; None where nothing is."""
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            for start in range(0, len(paths), _SLICE):
                part = paths[start : start + _SLICE]
                yield from zip(part, pool.map(self._status, part), strict=True)

    def _status(self, path: bytes) -> os.stat_result | None:
        full = os.path.join(self.top, path)  # noqa: PTH118
        try:
            return os.stat(full)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SourceError(
                f"{display_path(full)}: cannot be read: {error.strerror or error}",
                "check its permissions, or leave it out of the list",
            ) from error

    def _tolerated(self, missing: Sequence[bytes]) -> frozenset[bytes]:
        if len(missing) > _MAX_MISSING:
            raise SourceError(
                f"{len(missing)} of {len(self.paths)} listed files are not there, among them"
                f" {display_path(os.path.join(self.top, missing[0]))}",  # noqa: PTH118
                "give the list in the folder that its paths are relative to",
            )
        return frozenset(missing)


def _hidden_part(path: bytes) -> bytes | None:
    """The uppermost hidden file or folder of a path, which counts once, whole."""
    parts = path.split(b"/")
    for number, part in enumerate(parts, 1):
        if part and is_hidden(part, folder=number < len(parts)):
            return b"/".join(parts[:number])
    return None


def _folders_above(path: bytes) -> Iterator[bytes]:
    """The folders that a path lies in, as deep as one can be a class or a split."""
    parts = path.split(b"/", 2)
    for count in range(1, len(parts)):
        yield b"/".join(parts[:count])
