"""One batch of candidates becomes one batch of samples: the work of a worker process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from packer.errors import ImageError, PackerError
from packer.options import ImageOptions
from packer.packing.readahead import read_ahead
from packer.sources import Source
from packer.transcode import transcode
from packer.types import Sample, Skip, display_path


@dataclass(frozen=True)
class Slot:
    """One candidate in its place."""

    number: int
    path: bytes
    label: int


@dataclass(frozen=True)
class BatchTask:
    """What a worker needs to make one batch.

    Attributes:
        source: Reads the files; pickles into a few bytes.
        images: How pictures are made.
        slots: The batch's candidates, in order.
        fail: Raise at the first picture that cannot be stored, instead of skipping it.
    """

    source: Source
    images: ImageOptions
    slots: tuple[Slot, ...]
    fail: bool = False


@dataclass
class BatchResult:
    """A batch as it goes into its shard.

    Attributes:
        samples: In slot order; those skipped are missing.
        skips: Lines of the ledger.
        notes: Number of pictures by note, see `types.Encoded`.
        read: Bytes of the files read.
    """

    samples: list[Sample] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    read: int = 0


def make_batch(task: BatchTask) -> BatchResult:
    """Read, decode, resize and encode one batch.

    Raises:
        PackerError: A picture cannot be stored, and `task.fail` is set; the message names it.
    """
    result = BatchResult()
    files = read_ahead(task.source, [slot.path for slot in task.slots])
    for slot, data in zip(task.slots, files, strict=True):
        try:
            if isinstance(data, ImageError):
                raise data
            result.read += len(data)
            extension = PurePosixPath(display_path(slot.path)).suffix
            picture = transcode(data, task.images, extension)
        except ImageError as error:
            if task.fail:
                raise PackerError(f"{display_path(slot.path)}: {error.message}") from error
            result.skips.append(Skip(slot.number, slot.path, error.reason, error.detail))
            continue
        result.notes.update(picture.notes)
        result.samples.append(
            Sample(
                slot=slot.number,
                path=slot.path,
                label=slot.label,
                width=picture.width,
                height=picture.height,
                payloads={"image": picture.payload},
            )
        )
    return result


def describe_batch(task: BatchTask) -> str:
    """Names the files of a batch, for an error."""
    paths = [display_path(slot.path) for slot in task.slots]
    shown = ", ".join(paths[:3])
    return f"{shown} and {len(paths) - 3} more files" if len(paths) > 3 else shown
