"""What mini-batches are made from, and which one is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from packer.reader.batches.fields import Fields
from packer.reader.batches.samples import StoredSamples
from packer.reader.images.layout import Layout
from packer.reader.images.stored import IMAGE
from packer.reader.order.schedule import Schedule


class Wanted(NamedTuple):
    """Identifies one mini-batch.

    Attributes:
        epoch: Number of the epoch.
        start: Position in the epoch from which steps are counted.
        step: Number of the mini-batch, counted from `start`.
    """

    epoch: int
    start: int
    step: int


@dataclass(frozen=True)
class Material:
    """What a Maker makes mini-batches from.

    Attributes:
        dataset: The samples.
        schedule: The rank's mini-batches of each epoch.
        fields: The fields of a mini-batch.
        workers: Number of processes that take the mini-batches in turn.
        planes: Whether pictures in one tensor are 3×H×W in memory, else H×W×3.
    """

    dataset: StoredSamples
    schedule: Schedule
    fields: Fields
    workers: int = 1
    planes: bool = False

    def layout(self) -> Layout | None:
        """Return the memory layout of a full mini-batch's pictures; None if the mini-batch has no
        pictures, or pictures that do not fit into one array (see `Decoder.room`).
        """
        if IMAGE not in self.fields.names:
            return None
        room = self.dataset.decoder.room(self.schedule.options.batch_size)
        return None if room is None else Layout.of(room, self.planes)
