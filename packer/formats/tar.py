"""The tar format: plain WebDataset.

USTAR members are named `<slot, nine digits>.<extension>`; the members of a sample are adjacent, in
the order of the fields; mode 0644, times and owners 0, two zero blocks at the end. An offset in the
index is that of the payload itself, after the tar header and the `.npy` header of a raw picture, so
that all codecs are read the same way. A batch is the range from the header of its first member to
the padding of its last one.

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
WEBDATASET = True
#: Section of the pack's README.md on reading the shards without packer; see `packer.formats`.
READING = """
The shards are WebDataset tar files. Hugging Face's `datasets` reads them; where its loader is
named, the files must be named, too:

```python
from datasets import load_dataset

dataset = load_dataset("./")
files = {"$split": "$split-*.tar"}
dataset = load_dataset("webdataset", data_dir=".", data_files=files)
```

With `webdataset`, and with Python alone:

```python
import glob, tarfile
import webdataset

shards = sorted(glob.glob("$split-*.tar"))
samples = webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)
with tarfile.open("$shard") as archive:
    names = archive.getnames()
```
"""

BLOCK = 512
#: Eleven octal digits hold a member's size.
MAX_MEMBER_BYTES = 8**11 - 1
#: Two zero blocks end an archive. Padding to 10,240 bytes, which tape drives needed, is optional.
END = bytes(2 * BLOCK)
#: Accepted by `tarfile`, webdataset and DALI; lower case, as webdataset converts to lower case.
_EXTENSION = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
#: In bytes: the name field has 100, and nine digits and a dot precede the extension.
_MAX_EXTENSION = 80

_SIZE = slice(124, 136)
_CHECKSUM = slice(148, 156)


class Writer:
    """Writes one tar shard; see `packer.formats.ShardWriter`.

    Args:
        path: File to create; must not exist.
        fields: Fields of every sample.
        one_size: Ignored; part of the `ShardWriter` protocol.

    Raises:
        ConfigError: The extension of a field is invalid, or two fields have the same one.
        OutputError: The file system reported an error.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None:
        _check_extensions(fields)
        self._fields = fields
        self._prefixes = {entry.name: file_prefix(entry) for entry in fields}
        self._places = PayloadPlaces(fields)
        self._batch_offset: list[int] = []
        self._end = 0
        # Updated with each batch, so that the file is not read again at the end.
        self._hash = hashlib.sha256()
        self._file = NewFile(path)

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch, which may be empty, with one write.

        Raises:
            OutputError: A member has 8 GiB or more, or the file system reported an error.
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
            OutputError: The file system reported an error.
        """
        self._append(END)
        self._file.close()
        return replace(self._places.layout(self._batch_offset), sha256=self._hash.hexdigest())

    def abort(self) -> None:
        """Close the file without finishing it; never raises."""
        self._file.abort()

    def _append(self, data: bytes) -> None:
        self._file.write(data, self._end)
        self._hash.update(data)
        self._end += len(data)

    def _add_sample(self, sample: Sample, parts: list[Payload], end: int) -> int:
        """Append the members of a sample to `parts`; return the size of its batch, `end` before."""
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
    """Return the name of a member; it has no other dot, as readers split at the first one."""
    return f"{slot:09d}.{extension}"


def label_text(label: int) -> bytes | None:
    """Return the bytes of a label member; None if the sample has no label."""
    return None if label == NO_LABEL else b"%d" % label


def padded(size: int) -> int:
    """Return the bytes that a member of `size` bytes takes after its header."""
    return -(-size // BLOCK) * BLOCK


def file_prefix(entry: Field) -> Callable[[int, int], bytes]:
    """Return the function from (width, height) to a field's file header: `.npy` for codec raw."""
    if entry.codec is None:
        return _no_prefix
    prefix: Callable[[int, int], bytes] = registry.load("codecs", entry.codec).file_header
    return prefix


def member_header(name: str, size: int) -> bytes:
    """Return the 512 bytes before the data of a member."""
    block = bytearray(_TEMPLATE)
    encoded = name.encode("ascii")
    digits = b"%011o\0" % size
    block[: len(encoded)] = encoded
    block[_SIZE] = digits
    block[_CHECKSUM] = b"%06o\0 " % (_TEMPLATE_SUM + sum(encoded) + sum(digits))
    return bytes(block)


def _template() -> bytes:
    """Return a header without name and size; the checksum counts its own field as spaces."""
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
                f"field {entry.name!r}: invalid extension {extension!r} of a tar member",
                "lower-case letters, digits and underscores, parts joined by dots",
            )
        if extension in seen:
            raise ConfigError(
                f"two fields have the extension {extension!r}",
                "the members of a sample differ only in their extension",
            )
        seen.add(extension)
