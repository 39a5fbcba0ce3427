"""Arrange an archive's members as the tree of folders that unpacking would make.

The rules are those of tar: a later member of the same name replaces an earlier one; leading "/"
and everything up to a ".." are dropped from names, so nothing lies outside. Links are followed
as in a folder, but only within the archive.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from typing import Final, TypeAlias

import numpy as np

from packer.errors import SourceError
from packer.sources import _packs, split_name
from packer.sources._candidates import Candidates, FolderLinks, clamp, is_hidden
from packer.sources._member import NUMBERS, Member
from packer.sources._sidecars import CLS
from packer.types import Array, Listing, display_path

#: Most links followed on the way to one file, as in Linux (path_resolution(7)).
_MAX_HOPS = 40
#: Longest path of Linux in bytes (PATH_MAX): a member with a longer one cannot be unpacked.
_LONGEST_NAME = 4096


class _Link:
    """A symbolic link."""

    __slots__ = ("target",)

    def __init__(self, target: bytes) -> None:
        self.target = target


class _Hops:
    """Number of links that may still be followed on the way to one file."""

    def __init__(self) -> None:
        self.left = _MAX_HOPS


class _Special:
    """A FIFO or device."""


_SPECIAL: Final = _Special()
#: A file is the number of its row.
_Node: TypeAlias = "int | _Link | _Special | dict[bytes, _Node]"
_Folder: TypeAlias = "dict[bytes, _Node]"


class Tree:
    """The tree of an archive.

    Args:
        members: The members in archive order.
        read_head: Reads the first bytes of a member; b"" if they cannot be read.
        location: Path of the archive, for errors.
    """

    def __init__(
        self,
        members: Iterable[Member],
        read_head: Callable[[Member], bytes] = lambda member: b"",
        location: bytes = b"",
    ) -> None:
        self._read_head = read_head
        self._location = location
        #: Paths of `.cls` files that the last listing found, and their members.
        self.number_files: dict[bytes, Member] = {}
        self._top: _Folder = {}
        self._rows = array("q")
        for member in members:
            self._add(member)

    def enter(self, root: bytes) -> list[_Folder]:
        """Return the folder that is the top, and the folders above it, from the archive's own top.

        It is `root` if there is such a folder. Else, if the archive holds one top folder and
        nothing beside it (hidden files apart), it is that folder, unless its name is a split's,
        which is no data set's name, or a picture lies in it directly: so `tar cf x.tar mydata/` is
        the folder mydata.
        """
        if root and (found := self._follow([self._top], root, _Hops())) is not None:
            chain, node = found
            if isinstance(node, dict):
                return [*chain, node]
        visible = [name for name in self._top if not is_hidden(name, folder=True)]
        if len(visible) == 1 and split_name(visible[0]) is None:
            inner = self._top[visible[0]]
            if isinstance(inner, dict) and not _holds_picture(inner):
                return [self._top, inner]
        return [self._top]

    def listing(self, root: bytes, litter: Collection[bytes]) -> tuple[Listing, Array]:
        """Return the listing of the unpacked folder, and the places of the files.

        Returns:
            The listing; int64, one row per candidate, with the columns of `Member.numbers`.
        """
        found = Candidates(litter)
        rows, number_rows = array("q"), dict[bytes, int]()
        top = self.enter(root)
        waiting = [(b"", top, frozenset([id(top[-1])]), 0)]
        links = FolderLinks(self._location)
        while waiting:
            prefix, chain, ids, linked = waiting.pop()
            links.enter(prefix, linked)
            if self._is_pack(chain):
                found.pass_over_pack(prefix, self._location)
                continue
            for name, entry in chain[-1].items():
                path = prefix + name
                if is_hidden(name, folder=False):
                    found.ignore("hidden", path)
                    continue
                reached = self._reach(chain, entry, _Hops())
                if reached is None:
                    assert isinstance(entry, _Link), "others are what they are"
                    if found.add_broken_link(path, entry.target):
                        rows.append(-1)
                    continue
                above, node = reached
                if isinstance(node, dict):
                    if _take_folder(name, path, node, ids, found):
                        deeper = linked + isinstance(entry, _Link)
                        waiting.append((path + b"/", [*above, node], ids | {id(node)}, deeper))
                elif not isinstance(node, int):
                    found.ignore("special", path)
                elif found.wants(path):
                    rows.append(node)
                    _, _, size, stamp, _, _ = self._rows[node * NUMBERS : (node + 1) * NUMBERS]
                    found.add(path, size, stamp)
                elif path[-len(CLS) :].lower() == CLS:
                    number_rows[path] = node
        listing, order = found.listing()
        self.number_files = {
            path: self._member(path, number_rows[path]) for path in found.number_files
        }
        rows.extend([-1] * (len(order) - len(rows)))  # of pictures that only a pointer file names
        nowhere = np.zeros(NUMBERS, "i8")
        table = np.concatenate([np.array(self._rows, "i8"), nowhere]).reshape(-1, NUMBERS)
        return listing, table[np.array(rows, "i8")[order]]

    def _member(self, path: bytes, row: int) -> Member:
        start, stored, size, stamp, method, crc32 = self._rows[row * NUMBERS : (row + 1) * NUMBERS]
        return Member(path, "file", start, stored, size, stamp, method, crc32)

    def _is_pack(self, chain: list[_Folder]) -> bool:
        """Return whether the folder chain[-1] is a pack."""
        names = [name for name in _packs.NAMES if name in chain[-1]]
        if not names:
            return False
        reached = {name: self._reach(chain, chain[-1][name], _Hops()) for name in names}
        nodes = {name: found[1] for name, found in reached.items() if found is not None}
        if isinstance(nodes.get(_packs.WORK_FOLDER), dict):
            return True
        manifest = nodes.get(_packs.MANIFEST)
        if not isinstance(manifest, int):
            return False
        member = self._member(_packs.MANIFEST, manifest)
        return _packs.is_pack((_packs.MANIFEST,), lambda: self._read_head(member))

    def _add(self, member: Member) -> None:
        if len(member.name) > _LONGEST_NAME:
            raise SourceError(
                f"{display_path(self._location)}: a member's name has {len(member.name):,} bytes,"
                f" more than the {_LONGEST_NAME:,} of any path: {display_path(member.name[:40])}…",
                "make the archive anew with shorter names",
            )
        parts = _parts(member.name)
        if not parts:  # "./"
            return
        folder = self._top
        for part in parts[:-1]:
            folder = _inner(folder, part)
        name = parts[-1]
        if member.kind == "folder":
            _inner(folder, name)
        elif member.kind == "file":
            folder[name] = len(self._rows) // NUMBERS
            try:
                self._rows.extend(member.numbers)
            except OverflowError:  # for a time or size that no column holds, see `clamp`
                del self._rows[len(self._rows) // NUMBERS * NUMBERS :]
                self._rows.extend(map(clamp, member.numbers))
        elif member.kind == "symlink":
            folder[name] = _Link(member.target)
        elif member.kind == "hardlink":
            target = self._exact(_parts(member.target))
            if target is None or isinstance(target, dict):
                target = _Link(b"/" + member.target)  # which leads nowhere
            folder[name] = target
        else:
            folder[name] = _SPECIAL

    def _exact(self, parts: list[bytes]) -> _Node | None:
        """Return the node of that name; links are not followed."""
        node: _Node | None = self._top
        for part in parts:
            if not isinstance(node, dict):
                return None
            node = node.get(part)
        return node

    def _reach(
        self, chain: list[_Folder], node: _Node, hops: _Hops
    ) -> tuple[list[_Folder], _Node] | None:
        """Return an entry of the folder chain[-1] with links followed; returns as `_follow`."""
        if isinstance(node, _Link):
            return self._follow(chain, node.target, hops)
        return chain, node

    def _follow(
        self, chain: list[_Folder], target: bytes, hops: _Hops
    ) -> tuple[list[_Folder], _Node] | None:
        """Follow a link in the folder chain[-1], and all links on its way.

        Returns:
            The folders above the target, and the target; None if it leads nowhere, in a circle,
            or out of the archive.
        """
        hops.left -= 1
        if hops.left < 0 or not target or target.startswith(b"/"):
            return None
        above, node = chain[:-1], chain[-1]
        reached: _Node = node
        for part in target.split(b"/"):
            if not isinstance(reached, dict):
                return None
            if part in (b"", b"."):
                continue
            if part == b"..":
                if not above:
                    return None
                above, reached = above[:-1], above[-1]
                continue
            inner = reached.get(part)
            if inner is None:
                return None
            found = self._reach([*above, reached], inner, hops)
            if found is None:
                return None
            above, reached = found
        return above, reached


def _inner(folder: _Folder, name: bytes) -> _Folder:
    """Return the folder of that name in `folder`; create it, or replace another node, if needed."""
    inner = folder.get(name)
    if not isinstance(inner, dict):
        inner = folder[name] = {}
    return inner


def _take_folder(
    name: bytes, path: bytes, folder: _Folder, ids: frozenset[int], found: Candidates
) -> bool:
    """Return whether to descend into a folder, given the ids of the folders above it."""
    if is_hidden(name, folder=True):
        found.ignore("hidden", path)
        return False
    if id(folder) in ids:
        found.ignore("link-loop", path)
        return False
    found.add_folder(path)
    return True


def _holds_picture(folder: _Folder) -> bool:
    probe = Candidates()
    return any(
        not isinstance(node, dict) and not is_hidden(name, folder=False) and probe.wants(name)
        for name, node in folder.items()
    )


def _parts(name: bytes) -> list[bytes]:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        last = len(parts) - 1 - parts[::-1].index(b"..")
        parts = parts[last + 1 :]
    return parts
