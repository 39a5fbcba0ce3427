"""Decide which files are candidates, by one rule for every kind of source.

A file with a known image extension, in any case, is a candidate, even if it does not exist: a link
with such a name that leads nowhere, or a name that only DVC's pointer file has. Everything
else is ignored and counted by reason:

    hidden       name starts with a dot (.DS_Store, ._0001.jpg, .git), or is a folder that systems
                 put beside pictures (__MACOSX, @eaDir, lost+found); a folder counts once, whole
    pack         a folder that packer made, finished or not; counts once, whole
    special      FIFO, socket, device
    broken-link  link to nothing, in a circle, or out of an archive, without an image extension
    link-loop    link to a folder that it lies in itself
    litter       named by the recipe
    extension    any other file (Thumbs.db, desktop.ini, README.md, RENAME2)
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from packer.errors import SourceError
from packer.sources import EXTENSIONS, split_name
from packer.sources._sidecars import DVC, SidecarFinder, SidecarMark
from packer.types import Array, Listing, Sidecars, display_path

_EXTENSIONS = frozenset(extension.encode() for extension in EXTENSIONS)
_SYSTEM_FOLDERS = frozenset(
    (b"__MACOSX", b"@eaDir", b"lost+found", b"$RECYCLE.BIN", b"System Volume Information")
)
_EXAMPLES = 5
#: Files between two reports: about a second on a slow network file system.
REPORT_EVERY = 1000
#: Limits of the columns of a listing. A file's time in ns is outside them before 1678 and after
#: 2262; as it only shows whether the file changed, the nearest valid time is enough.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
#: A folder that so many links to folders lead to, one in the other, is rare; there may be so many.
_NESTED_LINKS = 3
_MOST_NESTED = 10_000
#: Number of bytes of a path that an error shows.
_SHOWN_BYTES = 60


def is_hidden(name: bytes, *, folder: bool) -> bool:
    """Return whether a file or folder of this name (without its folder) is ignored as hidden."""
    return name.startswith(b".") or (folder and name in _SYSTEM_FOLDERS)


def is_picture(path: bytes) -> bool:
    """Return whether a path has an image extension."""
    # Only the base name's extension counts: "v1.2/README" has none.
    dot = path.rfind(b".")
    return dot >= 0 and path[dot:].lower() in _EXTENSIONS


def clamp(number: int) -> int:
    """Return the nearest int64 of a file's time in ns, or its size."""
    return min(max(number, _LEAST), _MOST)


def why_missing(target: bytes) -> str:
    """Return the message for a link with an image extension that leads to no file."""
    shown = display_path(target)
    if b".git/annex/objects/" in target:
        return f"git-annex has not fetched it: git annex get (a link to {shown})"
    if b"dvc/cache/" in target:
        return f"DVC has not fetched it: dvc pull (a link to {shown})"
    return f"a link to {shown} that leads to no file"


class FolderLinks:
    """Stops a scan of folders that links lead through one another: of 20 that have links to all the
    others, there are 10^18 ways through them, though none is a circle.

    Args:
        top: Path of the source, for the error.
    """

    def __init__(self, top: bytes) -> None:
        self._top = top
        self._deep = 0

    def enter(self, path: bytes, links: int) -> None:
        """Note a folder.

        Args:
            path: Its path.
            links: Number of links to folders on that path.

        Raises:
            SourceError: There are too many behind three links and more.
        """
        self._deep += links >= _NESTED_LINKS
        if self._deep > _MOST_NESTED:
            shown = display_path(path[:_SHOWN_BYTES])
            raise SourceError(
                f"{display_path(self._top)}: links to folders lead through one another in more than"
                f" {_MOST_NESTED:,} ways, such as {shown}",
                "remove some of them, or give the pictures in a list",
            )


class Mark(NamedTuple):
    """A point in a scan: the counts so far."""

    paths: int
    folders: int
    ignored: dict[str, int]
    examples: dict[str, list[bytes]]
    sidecars: SidecarMark


class Candidates:
    """Collects what a scan finds, in any order, and sorts it into a `Listing`.

    A data set can have millions of files: beside its path, a file costs 24 bytes here.

    Args:
        litter: Paths of files that a recipe names as known litter.
        report: Called now and then with the number of candidates found so far.
    """

    def __init__(
        self, litter: Collection[bytes] = (), report: Callable[[int], None] | None = None
    ) -> None:
        self._litter = frozenset(litter)
        self._report = report
        self._seen = 0
        self._paths: list[bytes] = []
        self._sizes = array("q")
        self._stamps = array("q")
        self._inodes = array("Q")
        self._folders: list[bytes] = []
        self._ignored: dict[str, int] = {}
        self._examples: dict[str, list[bytes]] = {}
        self._missing: dict[bytes, str] = {}
        self._sidecars = SidecarFinder()

    @property
    def number_files(self) -> list[bytes]:
        """Return the paths of `.cls` files, sorted."""
        return sorted(self._sidecars.numbers)

    def wants(self, path: bytes) -> bool:
        """Return whether the file at `path` is a candidate; count it as ignored if not."""
        if path in self._litter:
            self.ignore("litter", path)
            return False
        dot = path.rfind(b".")
        if dot < 0 or (extension := path[dot:].lower()) not in _EXTENSIONS:
            self.ignore("extension", path)
            if dot >= 0:
                self._sidecars.look_at(path, extension)
            return False
        return True

    def add(self, path: bytes, size: int, stamp: int, inode: int = 0) -> None:
        """Add a candidate: its size in bytes, its modification time in ns, its inode number."""
        self._paths.append(path)
        try:
            self._sizes.append(size)
            self._stamps.append(stamp)
        except OverflowError:
            del self._sizes[len(self._paths) - 1 :]
            self._sizes.append(clamp(size))
            self._stamps.append(clamp(stamp))
        self._inodes.append(inode)
        self._report_if_due()

    def _report_if_due(self) -> None:
        """Call `report` if it is due. Ignored files count too, as they take time."""
        self._seen += 1
        if self._seen % REPORT_EVERY == 0 and self._report is not None:
            self._report(len(self._paths))

    def add_missing(self, path: bytes, why: str) -> None:
        """Add a candidate whose file is missing: it will be skipped and counted."""
        self._missing[path] = why
        self.add(path, 0, 0)

    def add_broken_link(self, path: bytes, target: bytes) -> bool:
        """Add a link that leads to no file, or count it as ignored; return whether it is a
        candidate.
        """
        if not is_picture(path):
            self.ignore("broken-link", path)
        elif self.wants(path):
            self.add_missing(path, why_missing(target))
            return True
        return False

    def add_folder(self, path: bytes) -> None:
        """Note a folder; deeper ones than two parts are no class and no split."""
        depth = path.count(b"/")
        # Deeper ones are splits and classes where a folder lies around the splits.
        if depth <= 1 or any(map(split_name, path.rsplit(b"/", 2)[1:])):
            self._folders.append(path)

    def mark(self) -> Mark:
        """Return the counts so far, for `forget_since`."""
        return Mark(
            len(self._paths),
            len(self._folders),
            dict(self._ignored),
            {reason: list(paths) for reason, paths in self._examples.items()},
            self._sidecars.mark(),
        )

    def forget_since(self, mark: Mark) -> None:
        """Forget all entries found since then."""
        for path in self._paths[mark.paths :]:
            self._missing.pop(path, None)
        for column in (self._paths, self._sizes, self._stamps, self._inodes):
            del column[mark.paths :]
        del self._folders[mark.folders :]
        self._ignored, self._examples = mark.ignored, mark.examples
        self._sidecars.forget_since(mark.sidecars)

    def pass_over_pack(self, prefix: bytes, top: bytes) -> None:
        """Count a folder that packer made as ignored, whole.

        Args:
            prefix: Its path with "/" at the end; b"" is the source itself.
            top: Path of the source, for the error.

        Raises:
            SourceError: It is the source itself.
        """
        path = prefix.removesuffix(b"/")
        if not path:
            raise SourceError(
                f"{display_path(top)}: is a pack that packer made, not a source",
                "name the folder or archive that it was made from, or one of its tar shards",
            )
        if path in self._folders:
            self._folders.remove(path)
        self.ignore("pack", path)

    def ignore(self, reason: str, path: bytes) -> None:
        """Count a file, or a whole hidden folder, as ignored."""
        self._report_if_due()
        self._ignored[reason] = self._ignored.get(reason, 0) + 1
        examples = self._examples.setdefault(reason, [])
        examples.append(path)
        if len(examples) > 4 * _EXAMPLES:  # the first in path order, whatever order they come in
            examples[:] = sorted(examples)[:_EXAMPLES]

    def listing(self) -> tuple[Listing, Array]:
        """Return the sorted listing, and the number of the `add` call of each candidate.

        If one folder holds all folders that are named as splits, the listing is relative to it.

        Returns:
            The listing; int64: `paths[i]` came with `add` number `order[i]` (from 0).
        """
        self._add_unfetched()
        by_path = sorted(range(len(self._paths)), key=self._paths.__getitem__)
        order = np.array(by_path, "i8")
        paths = [self._paths[number] for number in by_path]
        top = wrapping_folder(paths)
        around = top + b"/" if top else b""

        def relative(path: bytes) -> bytes:
            return path.removeprefix(around)

        listing = Listing(
            paths=list(map(relative, paths)) if top else paths,
            sizes=np.asarray(self._sizes, "i8")[order],
            stamps=np.asarray(self._stamps, "i8")[order],
            folders=_inside(self._folders, around),
            ignored={reason: self._ignored[reason] for reason in sorted(self._ignored)},
            ignored_examples={
                reason: tuple(map(relative, sorted(self._examples[reason])[:_EXAMPLES]))
                for reason in sorted(self._examples)
            },
            inodes=np.asarray(self._inodes, "u8").view("i8")[order] if any(self._inodes) else None,
            missing={relative(path): why for path, why in self._missing.items()},
            sidecars={
                kind: Sidecars(files.files, relative(files.example))
                for kind, files in self._sidecars.found(paths).items()
            },
            top=top,
        )
        return listing, order

    def _add_unfetched(self) -> None:
        """Add the pictures that only DVC's pointer files name."""
        pointers = self._sidecars.pointers
        if not pointers:
            return
        there = set(self._paths)
        for path in sorted(pointer.removesuffix(DVC) for pointer in pointers):
            if path not in there and is_picture(path):
                self.add_missing(path, "DVC has not fetched it: dvc pull")


def wrapping_folder(paths: Sequence[bytes]) -> bytes:
    """Return the folder that holds train/ and other splits, as `data` does in data/train/cat/1.jpg,
    if no other folder holds pictures; else b"".

    Args:
        paths: Paths of all candidates, sorted.
    """
    top = b""
    while paths:
        name, slash, _ = paths[0][len(top) :].partition(b"/")
        # They are sorted: a common prefix of the first and the last is common to all.
        around = top + name + b"/"
        if not slash or split_name(name) is not None or not paths[-1].startswith(around):
            return b""
        if _holds_splits(paths, around):
            return around[:-1]
        top = around
    return b""


def _holds_splits(paths: Sequence[bytes], around: bytes) -> bool:
    """Return whether all pictures in a folder are in folders named as splits, one of them train."""
    found: set[str] = set()
    at = 0
    while at < len(paths):
        folder, slash, _ = paths[at][len(around) :].partition(b"/")
        split = split_name(folder) if slash else None
        if split is None:
            return False
        found.add(split)
        at = bisect_left(paths, around + folder + b"0")  # behind all "folder/…", as "0" follows "/"
    # A folder train alone counts if it holds class folders.
    deep = paths[0][len(around) :].count(b"/") > 1
    return "train" in found and (len(found) > 1 or deep)


def _inside(folders: Sequence[bytes], around: bytes) -> list[bytes]:
    """Return the folders of at most two parts, relative to the folder `around`, which ends in
    "/".
    """
    relative = (folder[len(around) :] for folder in folders if folder.startswith(around))
    return sorted(folder for folder in relative if folder.count(b"/") <= 1)
