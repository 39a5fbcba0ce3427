"""What mini-batches hold, a field each: what streams and loaders share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from packer.arguments import check_names
from packer.errors import UsageError, suggestion
from packer.reader.batches.minibatch import make_mini_batch
from packer.reader.dataset import PackedDataset
from packer.reader.images.collate import channels_first, collate_images, collate_labels
from packer.reader.images.stored import IMAGE
from packer.reader.order.hashing import Draws, combine
from packer.types import Array

LABEL = "label"
KEY = "key"
#: Tells the hashes that seed augmentation from those that make the order.
_AUGMENT = 16
#: Where nothing is drawn, a stream of numbers for each picture would be made for nothing.
_NOTHING = Draws(0)


class Fields:
    """The fields of a stream's mini-batches.

    Args:
        dataset: Whose samples.
        names: Which fields, in order.
        seed: Of built-in transforms.
        as_dict: Make dicts by field name instead of named tuples.

    Attributes:
        names: As given.
        as_dict: As given.

    Raises:
        UsageError: An unknown field, one twice, or none.
    """

    def __init__(
        self, dataset: PackedDataset, names: Sequence[str], seed: int, as_dict: bool
    ) -> None:
        check_names("fields", names)
        self.names = tuple(names)
        self._dataset = dataset
        self._seed = seed
        self.as_dict = as_dict
        known = {LABEL, KEY, *dataset.pack.stored_fields()}
        for name in self.names:
            if name not in known:
                raise UsageError(f"unknown field {name!r}", suggestion(name, known))
        # Twice the same picture with two crops would need two sets of draws and of transforms.
        twice = [name for name in known if self.names.count(name) > 1]
        if twice:
            raise UsageError(f"invalid fields {self.names}: {twice[0]!r} twice", "name each once")
        if not self.names:
            raise UsageError("invalid fields (): none", "name one or more")

    def of(self, dataset: PackedDataset) -> Fields:
        """The same fields of another data set with the same fields."""
        return Fields(dataset, self.names, self._seed, self.as_dict)

    def column(
        self, name: str, samples: Array, read: Callable[[Array, str], list[memoryview | None]]
    ) -> list[Any]:
        """One field of some samples; of pictures, their payloads.

        Args:
            name: Of the field.
            samples: Their numbers.
            read: Gives the payloads of a field of some samples.
        """
        pack = self._dataset.pack
        if name == LABEL:
            return self._dataset.labels(samples)
        if name == KEY:
            return [pack.key(sample) for sample in samples.tolist()]
        payloads = read(samples, name)
        if name == IMAGE:
            return payloads
        return [None if payload is None else bytes(payload) for payload in payloads]

    def draws(self, epoch: int, sample: int) -> Draws:
        """What a sample's built-in transforms draw from in an epoch."""
        if not self._dataset.decoder.random:
            return _NOTHING
        return Draws(combine(self._seed, epoch, _AUGMENT, sample))

    def image(self, payload: memoryview | None, epoch: int, sample: int) -> Any:
        """One picture behind all transforms.

        Raises:
            DamagedSample: The sample has no picture, or it cannot be decoded.
        """
        decoder, draws = self._dataset.decoder, self.draws(epoch, sample)
        if decoder.decode == "bytes" or decoder.others:
            return decoder.image(payload, sample, draws)
        return decoder.pixels(payload, sample, draws)

    def images(self, payloads: Sequence[memoryview | None], epoch: int, samples: list[int]) -> Any:
        """Pictures behind all transforms: one tensor N×3×H×W in channels-last memory where they can
        be written straight into it, else a list. Raises as `image`.
        """
        decoder = self._dataset.decoder
        room = decoder.room(len(samples))
        if room is None:
            pairs = zip(payloads, samples, strict=True)
            return [self.image(payload, epoch, sample) for payload, sample in pairs]
        out = np.empty(room.shape, room.dtype)

        def draw(sample: int) -> Draws:
            return self.draws(epoch, sample)

        size = decoder.at_once or max(1, len(samples))
        for start in range(0, len(samples), size):
            some, numbers = payloads[start : start + size], samples[start : start + size]
            places = out[start : start + size]
            for left in decoder.write_all(some, numbers, draw, places):
                decoder.write(some[left], numbers[left], draw(numbers[left]), places[left])
        return channels_first(out)

    def collated(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """A mini-batch's columns as they are yielded, in order; what is no list is so already."""
        return {name: _collated(name, columns[name]) for name in self.names}

    def mini_batch(self, collated: Mapping[str, Any]) -> Any:
        """The mini-batch of collated columns."""
        if self.as_dict:
            return dict(collated)
        return make_mini_batch(self.names, (collated[name] for name in self.names))


def _collated(name: str, column: Any) -> Any:
    if not isinstance(column, list):
        return column
    if name == LABEL:
        return collate_labels(column)
    return collate_images(column) if name == IMAGE else column
