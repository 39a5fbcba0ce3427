"""What counts as a candidate: one rule for every kind of source.

A file with a known image extension, in any case, is a candidate. Everything else is ignored and
counted by reason:

    hidden       name starts with a dot (.DS_Store, ._0001.jpg, .git), or is a folder that systems
                 put beside pictures (__MACOSX, @eaDir, lost+found); a folder counts once, whole
    special      FIFO, socket, device
    broken-link  link to nothing, in a circle, or out of an archive
    link-loop    link to a folder that it lies in itself
    litter       named by the recipe
    extension    any other file (Thumbs.db, desktop.ini, README.md, RENAME2)
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection

import numpy as np

from packer.sources import EXTENSIONS
from packer.types import Array, Listing

_EXTENSIONS = frozenset(extension.encode() for extension in EXTENSIONS)
_SYSTEM_FOLDERS = frozenset(
    (b"__MACOSX", b"@eaDir", b"lost+found", b"$RECYCLE.BIN", b"System Volume Information")
)
_EXAMPLES = 5
#: Candidates between two reports: a second of a slow network file system.
_HEARD_EVERY = 1000


def is_hidden(name: bytes, *, folder: bool) -> bool:
    """Whether a file or folder of this name (without its folder) is passed over as hidden."""
    return name.startswith(b".") or (folder and name in _SYSTEM_FOLDERS)


class Candidates:
    """Collects what a scan finds, in any order, and sorts it into a `Listing`.

    A data set can have millions of files: beside its path, a file costs 24 bytes here.

    Args:
        litter: Paths of files that a recipe names as known litter.
        hear: Is told now and then how many candidates there are so far.
    """

    def __init__(
        self, litter: Collection[bytes] = (), hear: Callable[[int], None] | None = None
    ) -> None:
        self._litter = frozenset(litter)
        self._hear = hear
        self._paths: list[bytes] = []
        self._sizes = array("q")
        self._stamps = array("q")
        self._inodes = array("Q")
        self._folders: list[bytes] = []
        self._ignored: dict[str, int] = {}
        self._examples: dict[str, list[bytes]] = {}

    def wants(self, path: bytes) -> bool:
        """Whether the file at `path` is a candidate; counts it as ignored if not."""
        if path in self._litter:
            self.ignore("litter", path)
            return False
        # Only the base name's extension counts: "v1.2/README" has none.
        dot = path.rfind(b".")
        if dot < 0 or path[dot:].lower() not in _EXTENSIONS:
            self.ignore("extension", path)
            return False
        return True

    def add(self, path: bytes, size: int, stamp: int, inode: int = 0) -> None:
        """Add a candidate: its size in bytes, its modification time in ns, its inode number."""
        self._paths.append(path)
        self._sizes.append(size)
        self._stamps.append(stamp)
        self._inodes.append(inode)
        if self._hear is not None and len(self._paths) % _HEARD_EVERY == 0:
            self._hear(len(self._paths))

    def add_folder(self, path: bytes) -> None:
        """Note a folder; deeper ones than two parts are no class and no split."""
        if path.count(b"/") <= 1:
            self._folders.append(path)

    def ignore(self, reason: str, path: bytes) -> None:
        """Count a file, or a whole hidden folder, as ignored."""
        self._ignored[reason] = self._ignored.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        examples.append(path)
        if len(examples) > 4 * _EXAMPLES:  # the first in path order, whatever order they come in
            examples[:] = sorted(examples)[:_EXAMPLES]

    def listing(self) -> tuple[Listing, Array]:
        """The sorted listing, and which call of `add` each of its candidates came with.

        Returns:
            The listing; int64: `paths[i]` came with `add` number `order[i]` (from 0).
        """
        by_path = sorted(range(len(self._paths)), key=self._paths.__getitem__)
        order = np.array(by_path, "i8")
        listing = Listing(
            paths=[self._paths[number] for number in by_path],
            sizes=np.asarray(self._sizes, "i8")[order],
            stamps=np.asarray(self._stamps, "i8")[order],
            folders=sorted(self._folders),
            ignored={reason: self._ignored[reason] for reason in sorted(self._ignored)},
            ignored_examples={
                reason: tuple(sorted(self._examples[reason])[:_EXAMPLES])
                for reason in sorted(self._examples)
            },
            inodes=np.asarray(self._inodes, "u8").view("i8")[order] if any(self._inodes) else None,
        )
        return listing, order
