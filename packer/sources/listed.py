"""Read a list of paths as a source: the output of `find … -print0`, or a text file of lines.

The paths name files below one folder, the top. Relative to it they equal the paths of the same
files in a `packer.sources.folder` source: the rules are the same, and so is the pack if the list
has all files. The order of the list has no effect. Links are followed; ".." is resolved as text.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from packer.errors import SourceError
from packer.sources import _packs, split_name
from packer.sources._candidates import Candidates, is_hidden, wrapping_folder
from packer.sources.folder import LEADS_NOWHERE, FolderSource, side_by_side
from packer.types import Listing, display_path

#: Extensions of files that are recognised as lists; a table (.csv) would be ambiguous.
_SUFFIXES = (".txt", ".lst", ".list")
#: More missing files than this mean a wrong folder, not a few lost files.
_MAX_MISSING = 1000

MAKES_FILES = False


def accepts(location: Path) -> bool:
    """Return whether `location` is a file with the extension of a list."""
    return location.name.lower().endswith(_SUFFIXES) and location.is_file()


def open_source(location: Path, root: bytes = b"") -> ListedSource:
    """Return the source of the files that `location` lists, relative to the working directory.

    Raises:
        SourceError: It cannot be read, or is not a list.
    """
    return list_source(read_list(location), os.path.join(os.fsencode(Path.cwd()), root))  # noqa: PTH118


def read_list(location: Path) -> bytes:
    """Return the content of a list.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        return location.read_bytes()
    except OSError as error:
        raise SourceError(f"{location}: cannot be read: {error.strerror or error}") from error


def list_source(content: bytes, top: bytes, *, null: bool = False) -> ListedSource:
    """Return the source of the files that a list names.

    Args:
        content: Content of the list. Its paths are absolute, or relative to the working directory.
        top: The folder that holds the files; its folders are the classes or splits.
        null: Whether paths end in a zero byte instead of a newline.

    Raises:
        SourceError: No such folder, a path outside it, a path twice, or an empty list.
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
    """Return one line of the list as a path relative to `top`; b"" for `top` itself."""
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
        top: Absolute path of the folder that holds the files.
        paths: Paths relative to it, sorted, each once.
    """

    def __init__(self, top: bytes, paths: Sequence[bytes]) -> None:
        super().__init__(top)
        self.paths = paths

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the list: worker processes only read files."""
        return {**self.__dict__, "paths": ()}

    def scan(
        self,
        litter: Collection[bytes] = (),
        report: Callable[[int], None] | None = None,
        output: Path | None = None,
    ) -> Listing:
        """See `packer.sources.Source.scan`. A missing file is a candidate all the same: it
        will be skipped, with a line in the ledger.

        Raises:
            SourceError: Also if very many files are missing.
        """
        found = Candidates(litter, report)
        avoided = _packs.avoid(self.top, output).path
        own = () if avoided is None else (avoided + b"/",)
        packs = {pack for pack in self._packs() if not (pack + b"/").startswith(own)}
        visible, hidden = self._visible([*own, *(pack + b"/" for pack in packs)])
        deepest = {path.rpartition(b"/")[0] for path in visible}
        folders = {folder for path in deepest for folder in _with_those_above(path)}
        absent = []
        for path, status in zip(visible, side_by_side(self._status, visible), strict=True):
            if status is None:
                if found.wants(path):
                    absent.append(path)
                    found.add_missing(path, "no such file when the list was read")
            elif isinstance(status, bytes):
                found.add_broken_link(path, status)
            elif stat.S_ISDIR(status.st_mode):
                system = is_hidden(path.rpartition(b"/")[2], folder=True)
                (hidden if system else folders).add(path)
            else:
                _take_file(path, status, found)
        self._refuse_many(absent)
        for above in sorted(hidden):
            found.ignore("hidden", above)
        for folder in sorted(folders):
            found.add_folder(folder)
        for pack in sorted(packs):
            found.pass_over_pack(pack + b"/" if pack else b"", self.top)
        return self._finish(found)

    def single_folder(self) -> bytes | None:
        """Return the one top folder, if all pictures of the list are in folders of it and it is not
        named as a split.
        """
        known = Candidates()
        pictures = [path for path in self.paths if known.wants(path)]
        tops = {path.partition(b"/")[0] for path in pictures}
        if len(tops) != 1 or any(p.count(b"/") < 2 for p in pictures) or wrapping_folder(pictures):
            return None
        top = tops.pop()
        return top if split_name(top) is None else None

    def _visible(self, passed_over: Sequence[bytes]) -> tuple[list[bytes], set[bytes]]:
        """Paths outside of some folders, whose names end in "/": those that are not hidden, and
        what hides the others.
        """
        above = tuple(passed_over)
        visible, hidden = [], set()
        for path in self.paths:
            if above and (path + b"/").startswith(above):
                continue
            if (part := _hidden_part(path)) is not None:
                hidden.add(part)
            elif path:
                visible.append(path)
        return visible, hidden

    def _packs(self) -> set[bytes]:
        """Folders that packer made and of which the list names files."""
        packs = set()
        for path in self.paths:
            folder, _, name = path.rpartition(b"/")
            if name == _packs.MANIFEST:
                full = os.path.join(self.top, folder)  # noqa: PTH118
                if _packs.is_pack((name,), partial(_packs.read_manifest_head, full)):
                    packs.add(folder)
            elif _packs.WORK_FOLDER in path:
                above, found, below = (b"/" + path).partition(b"/" + _packs.WORK_FOLDER)
                full = os.path.join(self.top, path)  # noqa: PTH118
                if found and (below.startswith(b"/") or (not below and os.path.isdir(full))):  # noqa: PTH112
                    packs.add(above.removeprefix(b"/"))
        return packs

    def _status(self, path: bytes) -> os.stat_result | bytes | None:
        """What a path is; where a link leads that leads to no file; None where nothing is."""
        full = os.path.join(self.top, path)  # noqa: PTH118
        try:
            return os.stat(full)  # noqa: PTH116
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                raise SourceError(
                    f"{display_path(full)}: cannot be read: {error.strerror or error}",
                    "check its permissions, or leave it out of the list",
                ) from error
        try:
            return os.readlink(full)  # noqa: PTH115
        except OSError:
            return None

    def _refuse_many(self, absent: Sequence[bytes]) -> None:
        if len(absent) > _MAX_MISSING:
            raise SourceError(
                f"{len(absent)} of {len(self.paths)} listed files are not there, among them"
                f" {display_path(os.path.join(self.top, absent[0]))}",  # noqa: PTH118
                "give the list in the folder that its paths are relative to",
            )


def _take_file(path: bytes, status: os.stat_result, found: Candidates) -> None:
    if not stat.S_ISREG(status.st_mode):
        found.ignore("special", path)
    elif found.wants(path):
        found.add(path, status.st_size, status.st_mtime_ns, status.st_ino)


def _hidden_part(path: bytes) -> bytes | None:
    """The uppermost hidden file or folder of a path, which counts once, whole."""
    parts = path.split(b"/")
    for number, part in enumerate(parts, 1):
        if part and is_hidden(part, folder=number < len(parts)):
            return b"/".join(parts[:number])
    return None


def _with_those_above(folder: bytes) -> Iterator[bytes]:
    """A folder and those that it lies in, but for the top."""
    while folder:
        yield folder
        folder = folder.rpartition(b"/")[0]
