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

#: Slots from which on cutting costs more than the waiting that it saves: 16 pictures take 10 to
#: 40 ms, handing a task over takes about 0.2 ms.
SMALLEST_PIECE = 16


@dataclass(frozen=True)
class Slot:
    """One candidate in its place.

    Attributes:
        number: Of the slot.
        path: Of the candidate.
        label: Its class index, or NO_LABEL.
        missing: Why its file is not there, as the scan found; "" if it is.
    """

    number: int
    path: bytes
    label: int
    missing: str = ""


@dataclass(frozen=True)
class BatchTask:
    """What a worker needs to make one batch.

    Attributes:
        source: Reads the files; pickles into a few bytes.
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
        samples: In slot order; those skipped are missing.
        skips: Lines of the ledger.
        notes: Number of pictures by note, see `types.Encoded`.
        read: Bytes of the files read.
        ends: As its task says.
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
        WorkerError: The memory does not suffice for a picture; the message names it.
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
    """The same batches, those at the beginning and at the end in pieces: so that no worker, and not
    who waits for the first picture, has long to wait for another's whole batch.

    Guided self-scheduling (Polychronopoulos and Kuck, 1987): a piece is a part of what is left.

    Args:
        tasks: Whole batches.
        slots: How many slots they have together.
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
    """The results of one batch's pieces. Payloads of the last one are valid until the next result
    is asked for, as a `Pool` says; those of the others are copied.
    """
    while not (piece := next(results)).ends:
        piece.samples = [_with_copies(sample) for sample in piece.samples]
        yield piece
    yield piece


def describe_batch(task: BatchTask) -> str:
    """Names the files of a batch, for an error."""
    paths = [display_path(slot.path) for slot in task.slots]
    shown = ", ".join(paths[:3])
    return f"{shown} and {len(paths) - 3} more files" if len(paths) > 3 else shown


def _with_copies(sample: Sample) -> Sample:
    payloads = {name: bytes(payload) for name, payload in sample.payloads.items()}
    return replace(sample, payloads=payloads)
