"""Offsets of the values in an LMDB data file, read from the file itself without the library.

Data format of LMDB 0.9 (`mdb.c`, structs MDB_page, MDB_meta, MDB_db and MDB_node) on a 64-bit
host, in the byte order of that host:

    page     u64 number · u16 pad · u16 flags · u16 lower · u16 upper · u16 node offsets …
             (an overflow page: number · pad · flags · u32 pages · the value)
    meta     pages 0 and 1, after 16 bytes of page header: u32 magic · u32 version · u64 address ·
             u64 map size · two databases (free pages, main) · u64 last page · u64 transaction
    database u32 pad (of the first: the page size) · u16 flags · u16 depth · u64 branch pages ·
             u64 leaf pages · u64 overflow pages · u64 entries · u64 root page
    node     u16 low · u16 high · u16 flags · u16 key bytes · key · value, or the u64 number of
             its first overflow page; in a branch, low, high and flags are the page number
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packer.errors import DamageError

_PAGE = struct.Struct("=QHHHH")
_META = struct.Struct("=IIQQ 48x IHHQQQQQ QQ")
_FIRST_DATABASE_PAD = struct.Struct("=I")
_FIRST_DATABASE = 16 + 24
_NODE = struct.Struct("=HHHH")
_PAGE_NUMBER = struct.Struct("=Q")
_MAGIC = 0xBEEFC0DE
_VERSION = 1
_BRANCH, _LEAF = 0x01, 0x02
#: Node flags: the value is in overflow pages; the other flags mark nested databases.
_BIG, _OTHER = 0x01, 0x06
_EMPTY = (1 << 64) - 1
#: LMDB's own limit of the depth of a tree (CURSOR_STACK).
_MAX_DEPTH = 32


class LmdbFile(NamedTuple):
    """The result of `read_tree`.

    Attributes:
        page_bytes: Size of a page in bytes.
        pages: Number of pages in use; the file must have page_bytes · pages bytes.
        values: By key, in key order: absolute file offset and size in bytes of its value.
    """

    page_bytes: int
    pages: int
    values: dict[bytes, tuple[int, int]]


def read_tree(path: Path) -> LmdbFile:
    """Find all values of an LMDB data file that no process is writing.

    Raises:
        DamageError: The file is not such a file, or its tree is invalid.
    """
    try:
        with path.open("rb", buffering=0) as file:
            return _read(file.fileno())
    except (struct.error, ValueError, IndexError) as error:
        raise DamageError(f"{path}: not a readable LMDB data file: {error}") from error


def _read(fd: int) -> LmdbFile:
    (page_bytes,) = _FIRST_DATABASE_PAD.unpack(os.pread(fd, 4, _FIRST_DATABASE))
    if not 256 <= page_bytes <= 65536:
        raise ValueError(f"page size {page_bytes}")
    metas = [_META.unpack(os.pread(fd, _META.size, page_bytes * page + 16)) for page in (0, 1)]
    for meta in metas:
        if meta[0] != _MAGIC or meta[1] != _VERSION:
            raise ValueError("not LMDB 0.9")
    newest = max(metas, key=lambda meta: int(meta[-1]))
    root, last_page = newest[-3], newest[-2]
    found = {} if root == _EMPTY else dict(_walk(fd, page_bytes, root, 0))
    return LmdbFile(page_bytes, last_page + 1, found)


def _walk(
    fd: int, page_bytes: int, number: int, depth: int
) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield (key, (offset, size)) of all values below a page, in key order."""
    start = number * page_bytes
    page = os.pread(fd, page_bytes, start)
    _, _, flags, lower, _ = _PAGE.unpack_from(page)
    if depth == _MAX_DEPTH or not flags & (_BRANCH | _LEAF):
        raise ValueError(f"page {number} is neither branch nor leaf")
    for (node,) in struct.iter_unpack("=H", page[_PAGE.size : lower]):
        low, high, node_flags, key_bytes = _NODE.unpack_from(page, node)
        if flags & _BRANCH:
            yield from _walk(fd, page_bytes, low | high << 16 | node_flags << 32, depth + 1)
            continue
        if node_flags & _OTHER:
            raise ValueError(f"page {number} holds a nested database")
        value = node + _NODE.size + key_bytes
        offset = start + value
        if node_flags & _BIG:
            (first,) = _PAGE_NUMBER.unpack_from(page, value)
            offset = first * page_bytes + _PAGE.size
        yield page[node + _NODE.size : value], (offset, low | high << 16)
