"""The batch index: named little-endian arrays in one file, described byte by byte in
`packer/formats/README.md`.

    magic "PACKIDX1" · u64 header bytes H · u32 CRC-32 of the header · u32 zero · JSON header ·
    zeros up to a multiple of 64 · the arrays, each at a multiple of 64

The header lists each array's name, dtype, shape, offset and CRC-32. Readers ignore names they do
not know, so a later array needs no new version.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from packer.errors import DamageError
from packer.types import Array

MAGIC = b"PACKIDX1"
EXTENSION = "index"
#: Arrays start at multiples of this many bytes: a cache line, and enough for any dtype.
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sQII")


def encode_index(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> bytes:
    """The bytes of an index file.

    Args:
        arrays: By name; any shape, stored little-endian and C-contiguous, in this order.
        meta: JSON values kept in the header.
    """
    little = {name: _little_endian(array) for name, array in arrays.items()}
    entries = [
        {
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "offset": 0,
            "crc32": zlib.crc32(array.data if array.size else b""),
        }
        for name, array in little.items()
    ]
    # Offsets depend on the header's length and the other way round: reserve room for the longest.
    room = len(_header(entries, meta)) + len(entries) * len(str(1 << 62))
    start = _align(_PREFIX.size + room)
    for entry, array in zip(entries, little.values(), strict=True):
        entry["offset"] = start
        start = _align(start + array.nbytes)
    header = _header(entries, meta)
    out = bytearray(start)
    out[: _PREFIX.size] = _PREFIX.pack(MAGIC, len(header), zlib.crc32(header), 0)
    out[_PREFIX.size : _PREFIX.size + len(header)] = header
    for entry, array in zip(entries, little.values(), strict=True):
        offset = int(entry["offset"])  # type: ignore[call-overload]
        out[offset : offset + array.nbytes] = array.tobytes()
    return bytes(out)


class IndexFile:
    """An index file, mapped into memory: processes of one machine share its pages.

    An array's checksum is compared when it is first asked for, so arrays that nobody asks for
    (paths) cost nothing.

    Args:
        path: The file.

    Attributes:
        path: The file.
        meta: The header's JSON values.

    Raises:
        DamageError: Not an index file, cut short, or its header's checksum differs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            prefix = file.read(_PREFIX.size)
            if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
                raise DamageError(f"{path}: not a packer index of version 1")
            _, length, crc, _ = _PREFIX.unpack(prefix)
            header = file.read(length)
            if zlib.crc32(header) != crc:
                raise DamageError(f"{path}: its header is damaged")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        decoded = json.loads(header)
        self.meta: dict[str, Any] = decoded["meta"]
        self._entries = {entry["name"]: entry for entry in decoded["arrays"]}
        self._arrays: dict[str, Array] = {}
        for entry in self._entries.values():
            if entry["offset"] + _nbytes(entry) > len(self._map):
                raise DamageError(f"{path}: cut short, array {entry['name']!r} is not whole")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Names of the arrays, in file order."""
        return list(self._entries)

    def __getitem__(self, name: str) -> Array:
        """One array, read-only.

        Raises:
            DamageError: There is none of that name, or its checksum differs.
        """
        if name not in self._arrays:
            entry = self._entries.get(name)
            if entry is None:
                raise DamageError(f"{self.path}: has no array {name!r}")
            offset, nbytes = entry["offset"], _nbytes(entry)
            if zlib.crc32(memoryview(self._map)[offset : offset + nbytes]) != entry["crc32"]:
                raise DamageError(f"{self.path}: array {name!r} is damaged")
            self._arrays[name] = np.ndarray(
                tuple(entry["shape"]), np.dtype(entry["dtype"]), self._map, offset
            )
        return self._arrays[name]

    def __reduce__(self) -> tuple[type[IndexFile], tuple[Path]]:
        return IndexFile, (self.path,)  # another process maps the file itself


def _little_endian(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _header(entries: list[dict[str, Any]], meta: Mapping[str, Any]) -> bytes:
    return json.dumps({"arrays": entries, "meta": meta}, sort_keys=True).encode()


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _nbytes(entry: Mapping[str, Any]) -> int:
    count = int(np.prod(entry["shape"], dtype=np.int64)) if entry["shape"] else 1
    return count * np.dtype(entry["dtype"]).itemsize
