"""Plain data that the parts of packer exchange."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pickle import PickleBuffer
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ABSENT",
    "NO_LABEL",
    "Array",
    "Field",
    "Listing",
    "Payload",
    "Pixels",
    "Sample",
    "ShardLayout",
]

#: H×W×3 uint8, RGB, upright, C-contiguous.
Pixels: TypeAlias = NDArray[np.uint8]
Array: TypeAlias = NDArray[Any]
#: Content of one field of one sample.
Payload: TypeAlias = bytes | memoryview

NO_LABEL = -1
ABSENT = -1


@dataclass(frozen=True, slots=True)
class Encoded:
    """One picture as it will be stored.

    Attributes:
        payload: The encoded picture (codec raw: the H·W·3 bytes of its pixels).
        width: Width of the stored picture in pixels.
        height: Height of the stored picture in pixels.
        notes: Names from `packer.notes.NOTES`, for the summary: "turned" (EXIF orientation
            applied), "kept" (the encoded pixels are those of the file), "gray", "cmyk", "alpha",
            "16-bit", "icc" (converted to sRGB), "icc-ignored" (its profile is broken),
            "animation" (first frame), "warnings" (libjpeg reported a warning that concerns no
            pixel), "damaged" (pixels are missing or wrong; kept on request), "extension" (the
            file name has another extension than the content).
    """

    payload: bytes
    width: int
    height: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample on its way into a shard.

    Attributes:
        slot: Number of the sample in the plan; with nine digits, the name of its tar members.
        path: Original path relative to the source, raw bytes: identifies the sample.
        label: Class index, or NO_LABEL.
        width: Width of the stored picture in pixels.
        height: Height of the stored picture in pixels.
        payloads: Content by field name; the sample lacks all other fields.
        notes: See `packer.notes.note_bits`.
    """

    slot: int
    path: bytes
    label: int
    width: int
    height: int
    payloads: Mapping[str, Payload]
    notes: int = 0

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # Buffers, which a pickler may transfer separately (PEP 574). Executors of other
        # distributions may use protocol 4, which has no buffers.
        wrap = PickleBuffer if int(protocol) >= 5 else bytes
        payloads = {name: wrap(data) for name, data in self.payloads.items()}
        fields = self.slot, self.path, self.label, self.width, self.height
        return Sample, (*fields, payloads, self.notes)


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that was not packed: one line of skipped.jsonl."""

    slot: int
    path: bytes
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of all samples of a pack, as the manifest lists it.

    Attributes:
        name: "image", "label", or a name that the user chose.
        kind: image: encoded by `codec`; label: the class index (stored in the index, in tar
            shards also as an ASCII member); bytes: stored as given.
        extension: Extension of its tar members, lower case, without the dot.
        codec: Name of the codec of an image field.
    """

    name: str
    kind: Literal["image", "label", "bytes"]
    extension: str
    codec: str | None = None


@dataclass(frozen=True)
class ShardLayout:
    """Offsets from the start of the file, and sizes, in a finished shard; both in bytes.

    Attributes:
        batch_offset: int64 per batch: start of its contiguous range (0 for an empty batch).
        batch_bytes: int64 per batch: length of that range (0 for an empty batch).
        field_offset: By field name: int64 per sample, ABSENT if it lacks the field.
        field_size: By field name: int64 per sample, ABSENT if it lacks the field.
        sha256: Hex digest of the whole file; None if the writer would have to read the file.
    """

    batch_offset: Array
    batch_bytes: Array
    field_offset: Mapping[str, Array]
    field_size: Mapping[str, Array]
    sha256: str | None = None


@dataclass(frozen=True)
class ClassNumbers:
    """Class numbers from the `.cls` files of a source; a file belongs to the picture of its name.

    Attributes:
        values: int64 per candidate: number of the class, or NO_LABEL.
        invalid: Files whose content is not a number of 0 or more.
        alone: Files without a picture of the same name.
        shared: Candidates whose file also belongs to an earlier candidate.
    """

    values: Array
    invalid: tuple[bytes, ...] = ()
    alone: tuple[bytes, ...] = ()
    shared: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Sidecars:
    """Files of one kind beside the pictures, which are not read.

    Attributes:
        files: Number of files.
        example: Path of the first file.
    """

    files: int
    example: bytes


@dataclass(frozen=True)
class Listing:
    """The result of scanning a source, sorted by path; equal for a folder and its archive.

    Attributes:
        paths: Paths of the candidates relative to the top of the source: raw bytes, parts
            separated by "/".
        sizes: int64, size of each file in bytes.
        stamps: int64, modification time in ns (0 if the source has none).
        folders: All folders that could be a class or split, including empty ones; relative paths
            of one or two parts, sorted.
        ignored: Number of files that are no candidates, by reason: "hidden", "extension",
            "litter" (named by the recipe), "special" (FIFO, socket, device), "broken-link",
            "link-loop", "pack" (a folder that packer made).
        ignored_examples: Up to five paths per reason, for the summary.
        inodes: int64, inode number of each file; None if the source has none.
        missing: Candidates whose file does not exist, with the reason. They will be skipped;
            their size is 0.
        numbers: Class numbers from `.cls` files; None if there are no such files.
        sidecars: Ignored files that may hold labels, by kind; see `packer.sources._sidecars`.
        top: Folder inside the source to which the paths are relative; b"" for the source itself.
    """

    paths: list[bytes]
    sizes: Array
    stamps: Array
    folders: list[bytes]
    ignored: Mapping[str, int] = field(default_factory=dict)
    ignored_examples: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    inodes: Array | None = None
    missing: Mapping[bytes, str] = field(default_factory=dict)
    numbers: ClassNumbers | None = None
    sidecars: Mapping[str, Sidecars] = field(default_factory=dict)
    top: bytes = b""


def display_path(path: bytes) -> str:
    """Return a path as text: UTF-8 in every locale, so that a name is the same text everywhere.
    Bytes that are not UTF-8 become surrogate escapes; `path_bytes` is the inverse.
    """
    return path.decode("utf-8", "surrogateescape")


def path_bytes(text: str) -> bytes:
    """Return the bytes of a path, or of a part of one; the inverse of `display_path`."""
    return text.encode("utf-8", "surrogateescape")


def display_text(native: str) -> str:
    """Return a name in the form of `display_path`, given as Python decodes it by the locale: an
    argument, `os.getcwd()`, a `Path`.
    """
    return display_path(os.fsencode(native))


def native_text(text: str) -> str:
    """Return text for a `Path`; the inverse of `display_text`."""
    return os.fsdecode(path_bytes(text))
