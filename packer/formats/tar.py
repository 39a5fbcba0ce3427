"""The tar format: plain WebDataset.

USTAR members named `<slot, nine digits>.<extension>`, a sample's members side by side in the order
of the fields, mode 0644, times and owners 0, two zero blocks at the end. The index points at a
payload itself, behind a member's tar header and a raw picture's `.npy` header, so that every codec
reads alike. A batch is the range from its first member's header to its last member's padding.

Header fields: POSIX.1-2017, pax, "ustar Interchange Format".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from packer import registry
from packer.errors import ConfigError, OutputError
from packer.formats._newfile import NewFile
from packer.formats._places import PayloadPlaces
from packer.types import NO_LABEL, Field, Payload, Sample, ShardLayout

EXTENSION = "tar"
EXTRA = ""

BLOCK = 512
#: Eleven octal digits hold a member's size.
MAX_MEMBER_BYTES = 8**11 - 1
#: Two zero blocks end an archive. Filling up to 10,240 bytes, as tape drives wanted, is optional.
END = bytes(2 * BLOCK)
#: What `tarfile`, webdataset and DALI all take, lower case as webdataset lowers it.
_EXTENSION = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
#: Bytes of the name field; nine digits and a dot are taken.
_MAX_EXTENSION = 80

_SIZE = slice(124, 136)
_CHECKSUM = slice(148, 156)


class Writer:
    """Writes one tar shard; see `packer.formats.ShardWriter`.

    Args:
        path: File to make; must not exist.
        fields: Fields of every sample.
        one_size: Of no concern here.

    Raises:
        ConfigError: A field's extension cannot be one, or two fields share it.
        OutputError: The file system refused.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None:
        _check_extensions(fields)
        self._fields = fields
        self._prefixes = {entry.name: file_prefix(entry) for entry in fields}
        self._places = PayloadPlaces(fields)
        self._batch_offset: list[int] = []
        self._end = 0
        # While a batch is at hand, so that nobody waits for it at the end.
        self._hash = hashlib.sha256()
        self._file = NewFile(path)

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch with one write; an empty one is a batch too.

        Raises:
            OutputError: A member of 8 GiB or more, or the file system refused.
        """
        parts: list[Payload] = []
        end = 0
        for sample in samples:
            end = self._add_sample(sample, parts, end)
        self._places.end_batch(len(samples), end)
        self._batch_offset.append(self._end)
        self._append(b"".join(parts))

    def close(self) -> ShardLayout:
        """Finish the file, synced to disk.

        Raises:
            OutputError: The file system refused.
        """
        self._append(END)
        self._file.close()
        return replace(self._places.layout(self._batch_offset), sha256=self._hash.hexdigest())

    def abort(self) -> None:
        """Close what is open, without finishing; never raises."""
        self._file.abort()

    def _append(self, data: bytes) -> None:
        self._file.write(data, self._end)
        self._hash.update(data)
        self._end += len(data)

    def _add_sample(self, sample: Sample, parts: list[Payload], end: int) -> int:
        """Append a sample's members to `parts`; its batch is `end` bytes long before."""
        places = {}
        for entry in self._fields:
            label = entry.kind == "label"
            payload = label_text(sample.label) if label else sample.payloads.get(entry.name)
            if payload is None:
                continue
            prefix = self._prefixes[entry.name](sample.width, sample.height)
            size = len(prefix) + len(payload)
            if size > MAX_MEMBER_BYTES:
                raise OutputError(
                    f"{self._file.path}: field {entry.name!r} of slot {sample.slot} has {size} "
                    "bytes, a tar member holds less than 8 GiB",
                    "use --format hdf5",
                )
            header = member_header(member_name(sample.slot, entry.extension), size)
            places[entry.name] = end + BLOCK + len(prefix), len(payload)
            parts += (header, prefix, payload, bytes(-size % BLOCK))
            end += BLOCK + padded(size)
        self._places.add_sample(places)
        return end


def member_name(slot: int, extension: str) -> str:
    """Name of a member: dot-free up to its extension, as readers split there."""
    return f"{slot:09d}.{extension}"


def label_text(label: int) -> bytes | None:
    """A label member's bytes, or None where a sample has none."""
    return None if label == NO_LABEL else b"%d" % label


def padded(size: int) -> int:
    """Bytes that a member of `size` bytes takes behind its header."""
    return -(-size // BLOCK) * BLOCK


def file_prefix(entry: Field) -> Callable[[int, int], bytes]:
    """What makes a field's payload a file of its own, by (width, height): raw's `.npy` header."""
    if entry.codec is None:
        return _no_prefix
    prefix: Callable[[int, int], bytes] = registry.load("codecs", entry.codec).file_header
    return prefix


def member_header(name: str, size: int) -> bytes:
    """The 512 bytes before a member's data."""
    block = bytearray(_TEMPLATE)
    encoded = name.encode("ascii")
    digits = b"%011o\0" % size
    block[: len(encoded)] = encoded
    block[_SIZE] = digits
    block[_CHECKSUM] = b"%06o\0 " % (_TEMPLATE_SUM + sum(encoded) + sum(digits))
    return bytes(block)


def _template() -> bytes:
    """A header without name and size, its checksum field filled with spaces, as it is summed."""
    fields = (
        (100, b""),  # name
        (8, b"0000644\0"),  # mode
        (8, b"0000000\0"),  # uid
        (8, b"0000000\0"),  # gid
        (12, b""),  # size
        (12, b"00000000000\0"),  # mtime
        (8, b" " * 8),  # checksum
        (1, b"0"),  # type: regular file
        (100, b""),  # linkname
        (8, b"ustar\x0000"),  # magic, version
        (32, b""),  # uname
        (32, b""),  # gname
        (16, b""),  # devmajor, devminor
        (167, b""),  # prefix, unused
    )
    return b"".join(value.ljust(width, b"\0") for width, value in fields)


_TEMPLATE = _template()
_TEMPLATE_SUM = sum(_TEMPLATE)


def _no_prefix(width: int, height: int) -> bytes:
    return b""


def _check_extensions(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for entry in fields:
        extension = entry.extension
        if not _EXTENSION.fullmatch(extension) or len(extension) > _MAX_EXTENSION:
            raise ConfigError(
                f"field {entry.name!r}: extension {extension!r} cannot name a tar member",
                "lower-case letters, digits and underscores, parts joined by dots",
            )
        if extension in seen:
            raise ConfigError(
                f"two fields have the extension {extension!r}", "members of a sample differ by it"
            )
        seen.add(extension)
