"""Making one mini-batch: read, decode, collate.

BatchStream makes each mini-batch in one call, `Maker.make`. The threads of a Loader share the work:
one thread reads (`Maker.read`), several decode, and the last of them collates (`Maker.finished`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from packer.errors import DamagedSample
from packer.imaging.planes import to_planes
from packer.reader.batches.draft import Apart, Draft, InSheet, Made
from packer.reader.batches.material import Material, Wanted
from packer.reader.batches.windows import WindowBuffer
from packer.reader.images.layout import Layout, as_tensor
from packer.reader.images.stored import IMAGE
from packer.reader.order.epoch import EpochOrder
from packer.types import Array

#: Returns the payloads of one field of some samples.
Read: TypeAlias = Callable[[Array, str], "list[memoryview | None]"]


class Maker:
    """Makes mini-batches. `make` and `read` must be called by one thread, the other methods may be
    called by any.

    Args:
        material: What to make them from.
    """

    def __init__(self, material: Material) -> None:
        self._dataset = material.dataset
        self._schedule = material.schedule
        self._fields = material.fields
        self._workers = material.workers
        self._planes = material.planes
        self._epoch: int | None = None
        self._opened: tuple[EpochOrder, WindowBuffer] | None = None

    @property
    def at_once(self) -> int:
        """Best number of pictures for one call of `decode_several`; 0 if it decodes none."""
        decoder = self._dataset.decoder
        return 0 if self._planes or decoder.others else decoder.at_once

    def make(self, wanted: Wanted) -> dict[str, Any]:
        """Make a mini-batch, all of it in this thread; raises as `read` and `decode`.

        The fields are read in their order, and pictures are decoded before the next field is read:
        so transforms are called in the order of the fields.

        Returns:
            The collated columns by field name.
        """
        read, asked = self._enter(wanted)
        return self._collated(self._whole(wanted, asked, read, None)).columns

    def read(self, wanted: Wanted, sheet: Array | None) -> Draft:
        """Read a mini-batch. Fast if the steps of an epoch ascend: what was read for one mini-batch
        is used again for the next.

        Args:
            wanted: Which mini-batch.
            sheet: Array for its pictures; None: the maker allocates memory for them.

        Raises:
            DamageError: The pack does not hold what its index says.
            PackerError: The file system failed.
        """
        read, asked = self._enter(wanted)

        def make(samples: Array) -> Draft:
            draft = self._begun(wanted, asked, samples)
            for name in self._fields.names:
                self._add_column(draft, name, samples, read, sheet)
            return draft

        return self._dataset.payloads.steady(lambda: self._dataset.skips.around(asked, make))

    def decode_several(self, draft: Draft, run: range) -> Sequence[int]:
        """Decode a run of a draft's pictures in one call, as far as that is possible. Raises
        nothing.

        Returns:
            Numbers of the pictures that are not decoded: call `decode` for each.
        """
        pictures = draft.pictures
        if not isinstance(pictures, InSheet) or self._planes:
            return run
        place = slice(run.start, run.stop)
        payloads, samples = pictures.payloads[place], draft.samples[place]
        draw = functools.partial(self._fields.draws, draft.wanted.epoch)
        left = self._dataset.decoder.write_all(payloads, samples, draw, pictures.sheet[place])
        return [run[number] for number in left]

    def decode(self, draft: Draft, number: int) -> None:
        """Decode one of a draft's pictures.

        Raises:
            DamagedSample: The picture is missing or cannot be decoded.
            Exception: Whatever the user's transforms raise.
        """
        pictures, sample, epoch = draft.pictures, draft.samples[number], draft.wanted.epoch
        if isinstance(pictures, Apart):
            pictures.images[number] = self._fields.image(pictures.payloads[number], epoch, sample)
        elif isinstance(pictures, InSheet):
            self._write(pictures.payloads[number], sample, epoch, pictures.sheet[number])

    def remade(self, draft: Draft, error: DamagedSample) -> Draft:
        """Make the same mini-batch again, without a damaged sample.

        Raises:
            DamagedSample: on_error is "raise", or no undamaged sample is left in the on-disk batch.
            DamageError: The sample's file was changed while it was in use.
        """
        self._dataset.payloads.files.look()
        self._dataset.skips.add(error)
        return self._made_anew(draft)

    def finished(self, draft: Draft) -> Made:
        """Collate a draft whose pictures are decoded.

        Raises:
            DamageError: A shard file was changed since the draft was read.
        """
        if self._dataset.payloads.files.look() != draft.changes:
            draft = self._made_anew(draft)
        return self._collated(draft)

    def _enter(self, wanted: Wanted) -> tuple[Read, Array]:
        """Move the window to a mini-batch; return how to read its samples, and their numbers."""
        order, buffer = self._open(wanted.epoch)
        buffer.enter(*self._schedule.span(wanted.step, wanted.start))
        return buffer.read, self._schedule.mini_batch(order, wanted.step, wanted.start)

    def _open(self, epoch: int) -> tuple[EpochOrder, WindowBuffer]:
        if self._opened is None or self._epoch != epoch:
            order, options = self._schedule.order(epoch), self._schedule.options
            buffer = WindowBuffer(
                self._dataset.payloads, order, options.rank, options.world_size, self._workers
            )
            self._opened, self._epoch = (order, buffer), epoch
        return self._opened

    def _made_anew(self, draft: Draft) -> Draft:
        # Not through the window: another thread uses it, and it has moved on.
        read, pictures = self._dataset.payloads.read, draft.pictures
        lent = pictures.sheet if isinstance(pictures, InSheet) and pictures.lent else None
        return self._whole(draft.wanted, draft.asked, read, lent)

    def _whole(self, wanted: Wanted, asked: Array, read: Read, sheet: Array | None) -> Draft:
        """Read and decode a mini-batch in this thread."""

        def make(samples: Array) -> Draft:
            draft = self._begun(wanted, asked, samples)
            for name in self._fields.names:
                self._add_column(draft, name, samples, read, sheet)
                if name == IMAGE:
                    self._decode_all(draft)
            return draft

        return self._dataset.payloads.steady(lambda: self._dataset.skips.around(asked, make))

    def _begun(self, wanted: Wanted, asked: Array, samples: Array) -> Draft:
        return Draft(wanted, asked, samples.tolist(), self._dataset.payloads.files.changes)

    def _add_column(
        self, draft: Draft, name: str, samples: Array, read: Read, sheet: Array | None
    ) -> None:
        """Read one field of a draft."""
        if name != IMAGE:
            draft.columns[name] = self._fields.column(name, samples, read)
            return
        payloads = read(samples, name)
        room = None if sheet is not None else self._dataset.decoder.room(len(payloads))
        if sheet is not None:
            draft.pictures = InSheet(payloads, sheet, lent=True)
        elif room is not None:
            draft.pictures = InSheet(payloads, Layout.of(room, self._planes).empty(), lent=False)
        else:
            draft.pictures = Apart(payloads, [None] * len(payloads))

    def _decode_all(self, draft: Draft) -> None:
        size = self.at_once or max(1, draft.count)
        for start in range(0, draft.count, size):
            run = range(start, min(start + size, draft.count))
            for number in self.decode_several(draft, run):
                self.decode(draft, number)

    def _write(self, payload: memoryview | None, sample: int, epoch: int, out: Array) -> None:
        """Decode one picture into its place in a sheet."""
        decoder, draws = self._dataset.decoder, self._fields.draws(epoch, sample)
        if not self._planes:
            decoder.write(payload, sample, draws, out)
            return
        pixels = np.empty((*out.shape[1:], 3), out.dtype)
        decoder.write(payload, sample, draws, pixels)
        to_planes(pixels, out)

    def _collated(self, draft: Draft) -> Made:
        pictures = draft.pictures
        if isinstance(pictures, InSheet) and pictures.lent:
            return Made(self._fields.collated(draft.columns), draft.count)
        columns: dict[str, Any] = dict(draft.columns)
        if isinstance(pictures, Apart):
            columns[IMAGE] = pictures.images
        elif isinstance(pictures, InSheet):
            columns[IMAGE] = as_tensor(pictures.sheet, self._planes)
        return Made(self._fields.collated(columns))
