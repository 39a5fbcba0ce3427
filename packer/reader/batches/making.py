"""One mini-batch, step by step: read, decode, collate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from packer.errors import DamagedSample
from packer.imaging.planes import to_planes
from packer.reader.batches.fields import Fields
from packer.reader.batches.windows import WindowBuffer
from packer.reader.dataset import PackedDataset
from packer.reader.images.stored import IMAGE
from packer.reader.loading.sheets import Layout
from packer.reader.order.epoch import EpochOrder, Schedule
from packer.reader.order.hashing import Draws
from packer.types import Array

#: Gives the payloads of a field of some samples.
Read: TypeAlias = Callable[[Array, str], "list[memoryview | None]"]


class Wanted(NamedTuple):
    """Which mini-batch.

    Attributes:
        epoch: Its epoch.
        start: Position in the epoch from which steps are counted.
        step: Its number.
    """

    epoch: int
    start: int
    step: int


@dataclass(frozen=True)
class Material:
    """What mini-batches are made of.

    Attributes:
        dataset: Whose samples.
        schedule: Which of them.
        fields: What of them.
        workers: Number of processes that take the mini-batches in turn.
        planes: Whether pictures in one tensor are 3×H×W in memory, else H×W×3.
    """

    dataset: PackedDataset
    schedule: Schedule
    fields: Fields
    workers: int = 1
    planes: bool = False

    def layout(self) -> Layout | None:
        """Of pictures that are decoded straight into a mini-batch; None where that cannot be: sizes
        differ, or transforms of the user's make something else of them.
        """
        if IMAGE not in self.fields.names:
            return None
        room = self.dataset.decoder.room(self.schedule.options.batch_size)
        if room is None:
            return None
        count, height, width, _ = room.shape
        return Layout(count, height, width, room.dtype, self.planes)


@dataclass
class Draft:
    """A mini-batch whose pictures are not all decoded yet.

    Attributes:
        wanted: Which one.
        asked: int64, its samples, before damaged ones were replaced.
        samples: Its samples.
        columns: All fields; of pictures, their payloads.
        images: The pictures that were decoded each by itself; None where all go to `sheet`.
        sheet: Where they go: N×H×W×3 or N×3×H×W.
        changes: What `ShardFiles.look` had returned before it was read.
    """

    wanted: Wanted
    asked: Array
    samples: list[int]
    columns: dict[str, list[Any]]
    images: list[Any] | None
    sheet: Array | None
    changes: int

    @property
    def pictures(self) -> int:
        """How many pictures there are to decode."""
        return len(self.columns.get(IMAGE, ()))


class Maker:
    """Makes mini-batches. `read` is called by one thread, the others by any.

    Args:
        material: What of.
    """

    def __init__(self, material: Material) -> None:
        self._dataset = material.dataset
        self._schedule = material.schedule
        self._fields = material.fields
        self._workers = material.workers
        self._planes = material.planes
        self._epoch: int | None = None
        self._opened: tuple[EpochOrder, WindowBuffer] | None = None
        decoder = material.dataset.decoder
        #: How many pictures `decode_several` is best given; 0: none at all.
        self.at_once = 0 if self._planes or decoder.others else decoder.at_once

    def read(self, wanted: Wanted, sheet: Array | None) -> Draft:
        """Read a mini-batch. Cheap where steps of an epoch ascend: what was read for one serves the
        next.

        Args:
            wanted: Which one.
            sheet: Where its pictures will be written; None: each into memory of its own.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
        """
        order, buffer = self._open(wanted.epoch)
        buffer.enter(*self._schedule.span(wanted.step, wanted.start))
        asked = self._schedule.mini_batch(order, wanted.step, wanted.start)

        def make(samples: Array) -> Draft:
            return self._draft(wanted, asked, samples, sheet, buffer.read)

        return self._dataset.payloads.steady(lambda: self._dataset.skips.around(asked, make))

    def decode_several(self, draft: Draft, run: range) -> Sequence[int]:
        """Decode a run of a draft's pictures in one go, as far as that is possible. Raises nothing.

        Returns:
            Those that are not decoded: `decode` each.
        """
        if not self.at_once or draft.sheet is None:
            return run
        place = slice(run.start, run.stop)
        payloads, samples = draft.columns[IMAGE][place], draft.samples[place]
        epoch = draft.wanted.epoch

        def draw(sample: int) -> Draws:
            return self._fields.draws(epoch, sample)

        left = self._dataset.decoder.write_all(payloads, samples, draw, draft.sheet[place])
        return [run[number] for number in left]

    def decode(self, draft: Draft, number: int) -> None:
        """Decode one of a draft's pictures.

        Raises:
            DamagedSample: It is not there, or cannot be decoded.
            Exception: What the user's transforms raise.
        """
        payload, sample = draft.columns[IMAGE][number], draft.samples[number]
        epoch = draft.wanted.epoch
        if draft.images is not None:
            draft.images[number] = self._fields.image(payload, epoch, sample)
        elif draft.sheet is not None:
            self._write(payload, sample, epoch, draft.sheet[number])

    def remade(self, draft: Draft, error: DamagedSample) -> Draft:
        """The same mini-batch without a damaged sample.

        Raises:
            DamagedSample: Damage is to be an error, or nothing whole is left of an on-disk batch.
            DamageError: The sample's file was changed while it was in use.
        """
        self._dataset.payloads.files.look()
        self._dataset.skips.note(error)
        return self._made_anew(draft)

    def _made_anew(self, draft: Draft) -> Draft:
        """The same mini-batch, all of it in this thread."""

        def make(samples: Array) -> Draft:
            # Not through the window: that is another thread's, and has moved on.
            read = self._dataset.payloads.read
            fresh = self._draft(draft.wanted, draft.asked, samples, draft.sheet, read)
            for number in range(fresh.pictures):
                self.decode(fresh, number)
            return fresh

        return self._dataset.payloads.steady(lambda: self._dataset.skips.around(draft.asked, make))

    def finished(self, draft: Draft) -> dict[str, Any]:
        """Its columns, collated; of pictures in a sheet, their number.

        Raises:
            DamageError: A file that it was made of was changed meanwhile.
        """
        if self._dataset.payloads.files.look() != draft.changes:
            draft = self._made_anew(draft)
        columns: dict[str, Any] = dict(draft.columns)
        if IMAGE in columns:
            columns[IMAGE] = draft.pictures if draft.images is None else draft.images
        return self._fields.collated(columns)

    def _open(self, epoch: int) -> tuple[EpochOrder, WindowBuffer]:
        if self._opened is None or self._epoch != epoch:
            order, options = self._schedule.order(epoch), self._schedule.options
            buffer = WindowBuffer(
                self._dataset.payloads, order, options.rank, options.world_size, self._workers
            )
            self._opened, self._epoch = (order, buffer), epoch
        return self._opened

    def _draft(
        self, wanted: Wanted, asked: Array, samples: Array, sheet: Array | None, read: Read
    ) -> Draft:
        changes = self._dataset.payloads.files.changes
        columns = {name: self._fields.column(name, samples, read) for name in self._fields.names}
        images = [None] * len(columns.get(IMAGE, ())) if sheet is None else None
        return Draft(wanted, asked, samples.tolist(), columns, images, sheet, changes)

    def _write(self, payload: memoryview | None, sample: int, epoch: int, out: Array) -> None:
        """Write one picture to its place in a sheet."""
        decoder, draws = self._dataset.decoder, self._fields.draws(epoch, sample)
        if not self._planes:
            decoder.write(payload, sample, draws, out)
            return
        pixels = np.empty((*out.shape[1:], 3), out.dtype)
        decoder.write(payload, sample, draws, pixels)
        to_planes(pixels, out)
