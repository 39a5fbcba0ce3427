"""Recognise packs inside a source, which are not read as part of it.

`packer convert .` puts its pack there, and `--force` leaves OUT.old-…
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import NamedTuple

from packer.pack import manifest

#: Folder of an unfinished pack, and file of a finished one.
WORK_FOLDER = b".packer"
MANIFEST = manifest.NAME.encode()
NAMES = frozenset((WORK_FOLDER, MANIFEST))
#: Number of bytes of a manifest that are read: its first lines show that packer wrote it.
HEAD_BYTES = 4096
_WRITTEN_BY_PACKER = re.compile(rb'"packer"\s*:\s*"%s"' % manifest.FORMAT.encode())


def is_pack(names: Container[bytes], read_head: Callable[[], bytes]) -> bool:
    """Return whether a folder is a pack, finished or not.

    Args:
        names: The names in it, or those of `NAMES` among them.
        read_head: Reads the first bytes of its file `MANIFEST`; b"" if it cannot be read.
    """
    if WORK_FOLDER in names:
        return True
    return MANIFEST in names and _WRITTEN_BY_PACKER.search(read_head()) is not None


def is_pack_folder(folder: bytes, entries: Sequence[os.DirEntry[bytes]]) -> bool:
    """Return whether the folder of that path is a pack, given its entries named as parts of one."""
    names = {entry.name for entry in entries if entry.name != WORK_FOLDER or entry.is_dir()}
    return is_pack(names, lambda: read_manifest_head(folder))


def read_manifest_head(folder: bytes) -> bytes:
    """The first bytes of the manifest in a folder; b"" where there is none to read."""
    path = os.path.join(folder, MANIFEST)  # noqa: PTH118
    if not os.path.isfile(path):  # noqa: PTH113
        return b""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


class Avoided(NamedTuple):
    """The pack's folder, which is no part of the source.

    Attributes:
        path: Relative to the source's top, where it lies in it; also before it is there, as another
            run may just be making it.
        identity: Its device and inode number, where it is there.
    """

    path: bytes | None
    identity: tuple[int, int] | None

    def is_met(self, path: bytes, identity: tuple[int, int]) -> bool:
        """Whether a folder is the one."""
        return path == self.path or identity == self.identity


def avoid(top: bytes, output: Path | None) -> Avoided:
    """The pack's folder as a scan of the folder `top` meets it."""
    if output is None:
        return Avoided(None, None)
    around = os.path.realpath(top).rstrip(b"/") + b"/"
    full = os.path.realpath(os.fsencode(output))
    try:
        identity = identity_of(os.stat(full))  # noqa: PTH116
    except OSError:
        identity = None
    return Avoided(full.removeprefix(around) if full.startswith(around) else None, identity)


def identity_of(status: os.stat_result) -> tuple[int, int]:
    """Device and inode number: the same for all paths to a folder."""
    return status.st_dev, status.st_ino
