"""Read and write a batch index: named little-endian arrays in one file.

`packer/formats/README.md` describes it byte by byte:

    magic "PACKIDX1" · u64 header bytes H · u32 CRC-32 of the header · u32 zero · JSON header ·
    zeros up to a multiple of 64 · the arrays, each at a multiple of 64

The header lists each array's name, dtype, shape, offset and CRC-32. Readers ignore unknown names,
so a later array needs no new version.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
import struct
import zlib
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from packer.errors import DamageError, PackerError
from packer.files.mapped import map_file
from packer.files.regular import NotRegular, open_regular
from packer.types import Array

if TYPE_CHECKING:
    from packer.files._mapped import Mapped

MAGIC = b"PACKIDX1"
EXTENSION = "index"
#: Arrays start at multiples of this many bytes: a cache line, and enough for any dtype.
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sQII")
#: numpy's names of number types; numpy has more types, some of any size in memory.
_DTYPE = re.compile(r"\|[biu]1|<[iuf][248]")
#: Most dimensions of an array; numpy allows 32.
_MOST_SIDES = 8


def encode_index(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> bytes:
    """Return the bytes of an index file.

    Args:
        arrays: Arrays by name; any shape, stored little-endian and C-contiguous, in this order.
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

    An array's checksum is compared on first use, so unused arrays (paths) cost nothing. Code that
    keeps using arrays must call `confirm`, which checks that the file has not changed. If files
    cannot be mapped, the file is read.

    Args:
        path: The file.

    Attributes:
        path: The file.
        meta: The header's JSON values.
        device: Device of its file system (`st_dev`).

    Raises:
        DamageError: Missing, not an index file, cut short, or its header's checksum differs.
        PackerError: The file system refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_regular(path, follow=True) as file:
                header = _read_header(path, file)
                self._map, self._content = _load(file)
                self.device = os.fstat(file.fileno()).st_dev
        except FileNotFoundError:
            raise DamageError(f"{path}: is missing") from None
        except NotRegular as error:
            raise DamageError(f"{path}: {error.strerror}") from None
        except OSError as error:
            raise PackerError(f"{path}: cannot be read: {error.strerror}") from error
        self.meta, self._entries = _parse_header(path, header)
        self._is_changed = False
        self._arrays: dict[str, Array] = {}
        for name, entry in self._entries.items():
            if entry.offset + entry.nbytes > len(self._content):
                raise DamageError(f"{path}: cut short, array {name!r} is not whole")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Names of the arrays, in file order."""
        return list(self._entries)

    def form(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return dtype (in numpy's notation) and shape of an array, without reading it."""
        entry = self._entries[name]
        return entry.dtype.str, entry.shape

    def __getitem__(self, name: str) -> Array:
        """Return one array, read-only.

        Raises:
            DamageError: There is no array of that name, or its checksum differs.
        """
        if name not in self._arrays:
            entry = self._entries.get(name)
            if entry is None:
                raise DamageError(f"{self.path}: has no array {name!r}")
            if not self._is_right(entry):
                raise DamageError(f"{self.path}: array {name!r} is damaged")
            self._arrays[name] = np.ndarray(entry.shape, entry.dtype, self._content, entry.offset)
        return self._arrays[name]

    def confirm(self) -> None:
        """Check that the file has not changed since it was opened; cheap if its times are the same.
        Values that were read from arrays before this returns are then valid.

        Raises:
            DamageError: It has changed, or a part of it cannot be read any more.
        """
        if self._map is None:
            return  # the file was read: this memory is private
        if self._map.is_same() and not self._is_changed:
            return
        stamp = self._map.stamp()
        # Its times may be all that has changed.
        used = [self._entries[name] for name in list(self._arrays)]  # other threads add to them
        self._is_changed = self._is_changed or not all(map(self._is_right, used))
        self._map.accept(stamp)
        if self._is_changed or self.has_faults():
            raise DamageError(
                f"{self.path}: was changed while it was in use",
                "copy the pack again, then start anew",
            )

    def has_faults(self) -> bool:
        """Return whether a part of it could not be read and holds zeros; `confirm` raises then."""
        return self._map is not None and self._map.faults > 0

    def _is_right(self, entry: _Entry) -> bool:
        stored = self._content[entry.offset : entry.offset + entry.nbytes]
        return zlib.crc32(stored) == entry.crc32

    def __reduce__(self) -> tuple[type[IndexFile], tuple[Path]]:
        return IndexFile, (self.path,)  # another process maps the file itself


class _Entry(NamedTuple):
    """An array's place in the file, from the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    crc32: int


def _load(file: FileIO) -> tuple[Mapped | None, memoryview]:
    """Return the mapped file, if it can be mapped, and its content."""
    try:
        memory = map_file(file.fileno())
    except OSError:
        file.seek(0)
        return None, memoryview(file.read())
    return memory, memoryview(memory)


def _read_header(path: Path, file: FileIO) -> bytes:
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise DamageError(f"{path}: not a packer index of version 1")
    _, length, crc, _ = _PREFIX.unpack(prefix)
    # Compared with the file's size first: a damaged length must not ask for exabytes.
    if length > os.fstat(file.fileno()).st_size - _PREFIX.size:
        raise DamageError(f"{path}: cut short, or its header is damaged")
    header = file.read(length)
    if zlib.crc32(header) != crc:
        raise DamageError(f"{path}: its header is damaged")
    return header


def _parse_header(path: Path, header: bytes) -> tuple[dict[str, Any], dict[str, _Entry]]:
    try:
        decoded = json.loads(header)
        entries = {str(entry["name"]): _parse_entry(entry) for entry in decoded["arrays"]}
        return dict(decoded["meta"]), entries
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(f"{path}: its header is not readable: {error}") from error


def _parse_entry(entry: Mapping[str, Any]) -> _Entry:
    name = str(entry["name"])[:100]
    if not _DTYPE.fullmatch(str(entry["dtype"])):
        raise ValueError(f"array {name!r} has an invalid dtype")
    dtype = np.dtype(str(entry["dtype"]))
    shape = tuple(operator.index(length) for length in entry["shape"])
    offset, crc32 = operator.index(entry["offset"]), operator.index(entry["crc32"])
    # Not the product of the lengths alone: numpy multiplies those beside a zero, too.
    reach = math.prod(max(1, length) for length in shape) * dtype.itemsize
    right = len(shape) <= _MOST_SIDES and all(length >= 0 for length in shape)
    if not right or reach >= 1 << 62 or offset < 0 or offset % ALIGNMENT:
        raise ValueError(f"array {name!r} has an invalid shape or offset")
    return _Entry(dtype, shape, offset, math.prod(shape) * dtype.itemsize, crc32)


def _little_endian(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _header(entries: list[dict[str, Any]], meta: Mapping[str, Any]) -> bytes:
    return json.dumps({"arrays": entries, "meta": meta}, sort_keys=True).encode()


def _align(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
