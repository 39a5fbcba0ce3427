"""One batch of candidates becomes one batch of samples: the work of a worker process."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

from packer.errors import ImageError, PackerError, WorkerError
from packer.notes import note_bits
from packer.packing.shards.readahead import read_ahead
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.sources import Source
from packer.types import Sample, Skip, display_path

#: Smallest number of slots of a piece, as handing a task over takes about 0.2 ms and 16 pictures
#: take 10 to 40 ms.
SMALLEST_PIECE = 16


@dataclass(frozen=True)
class Slot:
    """One candidate and its place in the pack.

    Attributes:
        number: Number of the slot.
        path: Path of the candidate.
        label: Class index, or NO_LABEL.
        missing: Why the scan did not find its file; "" if it did.
    """

    number: int
    path: bytes
    label: int
    missing: str = ""


@dataclass(frozen=True)
class BatchTask:
    """What a worker needs to make one batch.

    Attributes:
        source: Reads the files; its pickle has a few bytes.
        images: How pictures are made.
        slots: The batch's candidates, in order.
        fail: Raise at the first picture that cannot be stored, instead of skipping it.
        ends: Whether the batch ends with these slots, see `cut`.
    """

    source: Source
    images: ImageOptions
    slots: tuple[Slot, ...]
    fail: bool = False
    ends: bool = True


@dataclass
class BatchResult:
    """A batch as it goes into its shard.

    Attributes:
        samples: Samples in slot order, without the skipped ones.
        skips: Lines of the ledger.
        notes: Number of pictures by note, see `types.Encoded`.
        read: Bytes of the files read.
        ends: `ends` of its task.
    """

    samples: list[Sample] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    read: int = 0
    ends: bool = True


def make_batch(task: BatchTask) -> BatchResult:
    """Read, decode, resize and encode one batch.

    Raises:
        PackerError: A picture cannot be stored, and `task.fail` is set; the message names it.
        WorkerError: Not enough memory for a picture; the message names it.
    """
    result = BatchResult(ends=task.ends)
    there = [slot.path for slot in task.slots if not slot.missing]
    with closing(read_ahead(task.source, there)) as files:
        for slot in task.slots:
            data = ImageError("missing", slot.missing) if slot.missing else next(files)
            try:
                if isinstance(data, Exception):
                    raise data
                result.read += len(data)
                picture = transcode(
                    data, task.images, posixpath.splitext(display_path(slot.path))[1]
                )
            except MemoryError as error:
                raise WorkerError(
                    f"{display_path(slot.path)}: not enough memory for this picture",
                    "allow more memory (ulimit -v), or use fewer --jobs; then run it again",
                ) from error
            except ImageError as error:
                if task.fail:
                    raise PackerError(f"{display_path(slot.path)}: {error.message}") from error
                result.skips.append(Skip(slot.number, slot.path, error.reason, error.detail))
                continue
            for note in picture.notes:
                result.notes[note] += 1
            result.samples.append(
                Sample(
                    slot=slot.number,
                    path=slot.path,
                    label=slot.label,
                    width=picture.width,
                    height=picture.height,
                    payloads={"image": picture.payload},
                    notes=note_bits(picture.notes),
                )
            )
    return result


def cut(tasks: Iterable[BatchTask], slots: int, jobs: int) -> Iterator[BatchTask]:
    """Cut batches at the beginning and at the end into pieces, so that neither a worker nor the
    writer of the first picture waits long for another worker's whole batch.

    Guided self-scheduling (Polychronopoulos and Kuck, 1987): a piece is a fraction of the remaining
    slots.

    Args:
        tasks: Whole batches.
        slots: Number of slots of all batches together.
        jobs: Number of workers.
    """
    done = 0
    for task in tasks:
        start = 0
        while start < len(task.slots):
            size = max(SMALLEST_PIECE, min(done, (slots - done) // (2 * jobs)))
            stop = min(start + size, len(task.slots))
            yield replace(task, slots=task.slots[start:stop], ends=stop == len(task.slots))
            done += stop - start
            start = stop


def one_batch(results: Iterator[BatchResult]) -> Iterator[BatchResult]:
    """The results of one batch's pieces. Payloads of the last piece are valid until the next
    result is requested, as in `Pool`; those of the others are copied.
    """
    while not (piece := next(results)).ends:
        piece.samples = [_with_copies(sample) for sample in piece.samples]
        yield piece
    yield piece


def describe_batch(task: BatchTask) -> str:
    """Name the files of a batch for an error."""
    paths = [display_path(slot.path) for slot in task.slots]
    shown = ", ".join(paths[:3])
    return f"{shown} and {len(paths) - 3} more files" if len(paths) > 3 else shown


def _with_copies(sample: Sample) -> Sample:
    payloads = {name: bytes(payload) for name, payload in sample.payloads.items()}
    return replace(sample, payloads=payloads)
