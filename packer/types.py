"""Plain data that the rooms of packer hand to one another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pickle import PickleBuffer
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
        # Payloads as buffers that a pickler may leave out (PEP 574), to be handed over apart.
        payloads = {name: PickleBuffer(data) for name, data in self.payloads.items()}
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
            "link-loop".
        ignored_examples: Some paths a reason, at most five each, for the summary.
        inodes: int64, inode number of each file; None where the source has none.
    """

    paths: list[bytes]
    sizes: Array
    stamps: Array
    folders: list[bytes]
    ignored: Mapping[str, int] = field(default_factory=dict)
    ignored_examples: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    inodes: Array | None = None


def display_path(path: bytes) -> str:
    """A path as text that can be printed and turned back (`os.fsencode`): bytes that are no
    UTF-8 become surrogate escapes.
    """
    return os.fsdecode(path)
