"""Packs that lie inside a source: what packer made is no part of what it reads.

`packer convert .` puts its pack there, and `--force` leaves OUT.old-…
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container

from packer import manifest

#: Folder of an unfinished pack; and what a finished one holds.
WORK_FOLDER = b".packer"
MANIFEST = manifest.NAME.encode()
NAMES = frozenset((WORK_FOLDER, MANIFEST))
#: Bytes of a manifest that are looked at: its first line says who wrote it.
HEAD_BYTES = 4096
_WRITTEN_BY_PACKER = re.compile(rb'"packer"\s*:\s*"%s"' % manifest.FORMAT.encode())


def is_pack(names: Container[bytes], read_head: Callable[[], bytes]) -> bool:
    """Whether a folder is a pack, finished or not.

    Args:
        names: The names in it, or those of `NAMES` among them.
        read_head: Reads the first bytes of the file `MANIFEST` in it, b"" where it cannot be read.
    """
    if WORK_FOLDER in names:
        return True
    return MANIFEST in names and _WRITTEN_BY_PACKER.search(read_head()) is not None
