"""Scan and read sources of a conversion: one file for each kind of source.

Each module has the names of `SourceKind`, below; other distributions add theirs by entry points of
the group `packer.sources` (docs/extending.md). A source scans once (`scan`) and then returns whole
files by path (`read`), from any process: it pickles into a few bytes and opens what it needs where
it is used.

Every scan follows the rules of `packer.sources._candidates`: which files are candidates, which are
ignored, and for which reason. So a folder and its archives give equal listings.
`packer.testing.SourceSuite` holds every kind of source to that.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from packer import registry
from packer.errors import ImageError, ReadError, SourceError
from packer.types import Listing

__all__ = [
    "EXTENSIONS",
    "MAX_FILE_BYTES",
    "Source",
    "SourceKind",
    "changed",
    "list_files",
    "load_kind",
    "open_source",
    "read_error",
    "split_name",
]

#: Extensions of candidates, lower case. A candidate is decoded by its content; a file with another
#: extension is ignored and counted.
EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".gif", ".tif", ".tiff"}
    | {".ppm", ".pgm", ".pbm", ".pnm", ".pam", ".pfm", ".avif", ".heic", ".heif", ".jp2", ".jxl"}
)
#: Names of folders, lower case, that are splits if all top folders with pictures have such names.
SPLIT_FOLDERS = {
    b"train": "train",
    b"training": "train",
    b"val": "val",
    b"valid": "val",
    b"validation": "val",
    b"test": "test",
    b"testing": "test",
}
#: Largest file in bytes that is read: a 179-megapixel picture (Pillow's own limit), uncompressed
#: with 16 bits in three channels, is as large; a sparse file could have any size.
MAX_FILE_BYTES = 1 << 30


class Source(Protocol):
    """Files by path."""

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """List the candidates, in one pass, without opening one of them.

        Args:
            litter: Paths that a recipe names as known litter; counted as ignored.
            report: Called at intervals with the number of candidates found so far, if the scan
                takes long.
            output: Folder of the pack, which is not part of the source even if it is inside it.

        Raises:
            SourceError: The source is missing, unreadable or invalid.
        """

    def read(self, path: bytes) -> bytes:
        """Return the content of one file.

        Raises:
            ImageError: reason "unreadable": no permission, shorter than it says.
            ReadError: The storage is in trouble, or the file changed since the scan.
        """


def split_name(folder: bytes) -> str | None:
    """Return train, val or test if a folder of this name is that split, else None."""
    return SPLIT_FOLDERS.get(folder.lower())


#: Permanent errors of a single file; other system errors mean trouble with the storage, and
#: skipping the file would lose samples that are whole.
_OF_THE_FILE = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}


def read_error(name: str, error: OSError) -> ImageError | ReadError:
    """Return the error for an OSError that was raised while reading the file of that name."""
    reason = error.strerror or str(error)
    if error.errno in _OF_THE_FILE:
        return ImageError("unreadable", reason)
    return changed(name, f"{reason} while it was read")


def changed(name: str, what: str) -> ReadError:
    """Return the error for a file that has changed since the scan."""
    return ReadError(f"{name}: {what}", "mend that and run the same command again to continue")


class SourceKind(Protocol):
    """The shape of a source's module.

    Attributes:
        MAKES_FILES: Whether it makes its files itself and needs no location: a recipe names it
            (`source: NAME`), and the module has `write_tree(folder)`, which writes all files into
            a folder for `packer fetch`.
    """

    MAKES_FILES: bool

    def accepts(self, location: Path) -> bool:
        """Whether `location` is such a source. Cheap: it is called for any path a user names."""

    def open_source(self, location: Path, root: bytes = b"") -> Source:
        """Open the source at `location`.

        Args:
            location: The path that the user named.
            root: Folder inside that is the top if it exists (a recipe's); b"" otherwise.

        Raises:
            SourceError: It cannot be read, or is not such a source.
        """


PROTOCOL = SourceKind


def list_files(
    files: Iterable[tuple[bytes, int, int]],
    litter: Collection[bytes] = (),
    report: Callable[[int], None] | None = None,
) -> Listing:
    """Make the listing of a source by the rules that hold for all kinds.

    Args:
        files: (path, size in bytes, modification time in ns or 0) of all files, candidates or not,
            in any order. Parts of a path are separated by "/".
        litter: As given to `Source.scan`.
        report: As given to `Source.scan`.
    """
    from packer.sources._candidates import Candidates, is_hidden

    found = Candidates(litter, report)
    folders: dict[bytes, bool] = {b"": False}

    def enter(folder: bytes) -> bool:
        """Note a folder and those above it; whether it is hidden or lies in a hidden one."""
        if folder not in folders:
            above, _, name = folder.rpartition(b"/")
            folders[folder] = enter(above)
            if not folders[folder] and is_hidden(name, folder=True):
                found.ignore("hidden", folder)
                folders[folder] = True
            elif not folders[folder]:
                found.add_folder(folder)
        return folders[folder]

    for path, size, stamp in files:
        folder, _, name = path.rpartition(b"/")
        if enter(folder):
            continue
        if is_hidden(name, folder=False):
            found.ignore("hidden", path)
        elif found.wants(path):
            found.add(path, size, stamp)
    return found.listing()[0]


def load_kind(name: str) -> Any:
    """The module of a kind of source, a `SourceKind`; one that makes its files has more.

    Raises:
        UsageError: No such kind, with a suggestion; or a plug-in that cannot be loaded.
    """
    return registry.load("sources", name)


def open_source(location: Path, root: bytes = b"") -> Source:
    """Open the source at `location`, of whatever kind. packer's own kinds come first.

    Raises:
        SourceError: Nothing there, nothing that packer can read, or several plug-ins accept it.
    """
    for name in registry.own_names("sources"):
        module = load_kind(name)
        if module.accepts(location):
            return cast(Source, module.open_source(location, root))
    if not location.exists():
        raise SourceError(f"{location}: no such folder or archive")
    found = {
        name: module
        for name in registry.plugins("sources")
        if (module := load_kind(name)).accepts(location)
    }
    if len(found) > 1:
        raise SourceError(
            f"{location}: accepted by several plug-ins: {', '.join(sorted(found))}",
            "name one in a recipe: source: NAME",
        )
    for module in found.values():
        return cast(Source, module.open_source(location, root))
    raise SourceError(f"{location}: not a folder, nor an archive that packer reads")
