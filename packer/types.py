"""Plain data that the rooms of packer hand to one another."""

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
#: Bytes of one field of one sample.
Payload: TypeAlias = bytes | memoryview

NO_LABEL = -1
ABSENT = -1


@dataclass(frozen=True, slots=True)
class Encoded:
    """One picture as it will be stored.

    Attributes:
        payload: The coded picture (codec raw: the H·W·3 bytes of its pixels).
        width: Of the stored picture, in pixels.
        height: Of the stored picture, in pixels.
        notes: What was done beyond the plain path, for the summary: "turned" (EXIF orientation
            applied), "kept" (coded pixels taken over), "gray", "cmyk", "alpha", "16-bit", "icc"
            (converted to sRGB), "icc-ignored" (its profile is broken), "animation" (first
            frame), "warnings" (libjpeg complained, but about no pixel), "damaged" (pixels are
            missing or wrong, and kept on request), "extension" (content differs from the file
            name).
    """

    payload: bytes
    width: int
    height: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample on its way into a shard.

    Attributes:
        slot: Its number in the plan; nine digits of it are its member name.
        path: Original path relative to the source, raw bytes: the sample's identity.
        label: Class index, or NO_LABEL.
        width: Of the stored picture, in pixels.
        height: Of the stored picture, in pixels.
        payloads: Bytes by field name; a field that is not here is absent in this sample.
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
    """A candidate that was not packed: one line of the ledger."""

    slot: int
    path: bytes
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of every sample of a pack, declared once in the manifest.

    Attributes:
        name: "image", "label", or the user's own.
        kind: image: coded by `codec`; label: the class index (kept in the index; tar also
            carries it as an ASCII member); bytes: as given.
        extension: Member extension in tar shards, lower case, without the dot.
        codec: Name of the codec of an image field.
    """

    name: str
    kind: Literal["image", "label", "bytes"]
    extension: str
    codec: str | None = None


@dataclass(frozen=True)
class ShardLayout:
    """Where a finished shard holds what: absolute file offsets and sizes in bytes.

    Attributes:
        batch_offset: int64, one a batch: start of its contiguous range (0 for an empty batch).
        batch_bytes: int64, one a batch: length of that range (0 for an empty batch).
        field_offset: By field name: int64, one a sample, ABSENT where it lacks the field.
        field_size: By field name: int64, one a sample, ABSENT where it lacks the field.
        sha256: Hex digest of the whole file, where the writer knows it without reading it.
    """

    batch_offset: Array
    batch_bytes: Array
    field_offset: Mapping[str, Array]
    field_size: Mapping[str, Array]
    sha256: str | None = None


@dataclass(frozen=True)
class ClassNumbers:
    """What the `.cls` files of a source say, each of the picture that has its name.

    Attributes:
        values: int64, one a candidate: the class's number, or NO_LABEL.
        invalid: Files that hold something else than a number from 0 on.
        alone: Files without a picture of their name.
        shared: Candidates that share their file with an earlier one.
    """

    values: Array
    invalid: tuple[bytes, ...] = ()
    alone: tuple[bytes, ...] = ()
    shared: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Sidecars:
    """Files of one kind that lie beside the pictures and are not read.

    Attributes:
        files: How many.
        example: The first one.
    """

    files: int
    example: bytes


@dataclass(frozen=True)
class Listing:
    """What a scan of a source found. Sorted by path; equal for a folder and its archive.

    Attributes:
        paths: Candidates, relative to the source's root, raw bytes, "/" between parts.
        sizes: int64, bytes of each file.
        stamps: int64, modification time in ns (0 where the source has none).
        folders: All folders that could be a class or split, empty ones too, relative paths of
            one or two parts, sorted.
        ignored: Files that are no candidates, counted by reason: "hidden", "extension",
            "litter" (named by the recipe), "special" (FIFO, socket, device), "broken-link",
            "link-loop", "pack" (a folder that packer made).
        ignored_examples: Some paths a reason, at most five each, for the summary.
        inodes: int64, inode number of each file; None where the source has none.
        missing: Candidates whose file is not there, with what is known of each: they will be
            skipped. Their size is 0.
        numbers: What `.cls` files say; None where there are none.
        sidecars: Ignored files that may hold labels, by kind: see `packer.sources._sidecars`.
        top: Folder inside the source that the paths are relative to, where it is not the source's
            own top.
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
    """A path as text: UTF-8 whatever the locale, so that a name is the same text for everybody.
    Bytes that are no UTF-8 become surrogate escapes; `path_bytes` turns it back.
    """
    return path.decode("utf-8", "surrogateescape")


def path_bytes(text: str) -> bytes:
    """The bytes of a path, or of a part of one, that is written as `display_path` writes it."""
    return text.encode("utf-8", "surrogateescape")


def display_text(native: str) -> str:
    """A name as Python decoded it from the system (an argument, `os.getcwd()`, a `Path`), which
    depends on the locale, as `display_path` writes it.
    """
    return display_path(os.fsencode(native))


def native_text(text: str) -> str:
    """The other way round: what a `Path` is made of."""
    return os.fsdecode(path_bytes(text))
