"""Scan and read sources of a conversion: one file for each kind of source.

Each module has

    accepts(location) -> bool              is it a source of this kind? (a Path; cheap)
    open_source(location, root) -> Source  root: bytes, the folder inside it that is the top if it
                                           exists (from a recipe), b"" otherwise

A source scans once (`scan`) and then returns whole files by path (`read`), from any process: it
pickles into a few bytes and opens its files in the process that uses it.

A scan of any kind follows the rules of `packer.sources._candidates`, which define the candidates
and the reasons for ignoring other files. So a folder and its archives give equal listings.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from packer import registry
from packer.errors import ImageError, ReadError, SourceError
from packer.types import Listing

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
        hear: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """List the candidates, in one pass, without opening one of them.

        Args:
            litter: Paths that a recipe names as known litter; counted as ignored.
            hear: Called at intervals with the number of candidates found so far, if the scan takes
                long.
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
    return ReadError(f"{name}: {what}", "mend that and run the same command again to go on")


def open_source(location: Path, root: bytes = b"") -> Source:
    """Open the source at `location`, whatever its kind.

    Raises:
        SourceError: It does not exist, or packer cannot read it.
    """
    for name in registry.names("sources"):
        module = registry.load("sources", name)
        if module.accepts(location):
            source: Source = module.open_source(location, root)
            return source
    if not location.exists():
        raise SourceError(f"{location}: no such folder or archive")
    raise SourceError(f"{location}: not a folder, nor an archive that packer reads")
