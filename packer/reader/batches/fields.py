"""The fields of a mini-batch: reading, transforming and collating each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from packer.arguments import check_names
from packer.errors import UsageError, suggestion
from packer.reader.batches.minibatch import make_mini_batch
from packer.reader.batches.samples import StoredSamples
from packer.reader.images.collate import collate_images, collate_labels
from packer.reader.images.stored import IMAGE
from packer.reader.order.hashing import Draws, combine
from packer.types import Array

LABEL = "label"
KEY = "key"
#: Makes the hashes that seed augmentation different from those that make the order.
_AUGMENT = 16
#: Used if no transform draws anything: saves making a stream of numbers for each picture.
_NOTHING = Draws(0)


class Fields:
    """The fields of a stream's mini-batches.

    Args:
        dataset: The samples.
        names: Names of the fields, in order.
        seed: Seed of built-in transforms.
        as_dict: Make dicts by field name instead of named tuples.

    Attributes:
        names: As given.
        as_dict: As given.

    Raises:
        UsageError: A field is unknown or there twice, or there are none.
    """

    def __init__(
        self, dataset: StoredSamples, names: Sequence[str], seed: int, as_dict: bool
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

    def of(self, dataset: StoredSamples) -> Fields:
        """Return the same fields of another data set that has them."""
        return Fields(dataset, self.names, self._seed, self.as_dict)

    def column(
        self, name: str, samples: Array, read: Callable[[Array, str], list[memoryview | None]]
    ) -> list[Any]:
        """Read one field, other than the picture, of some samples.

        Args:
            name: Name of the field.
            samples: int64, sample numbers.
            read: Returns the payloads of a field of some samples.
        """
        pack = self._dataset.pack
        if name == LABEL:
            return self._dataset.labels(samples)
        if name == KEY:
            return [pack.key(sample) for sample in samples.tolist()]
        payloads = read(samples, name)
        return [None if payload is None else bytes(payload) for payload in payloads]

    def draws(self, epoch: int, sample: int) -> Draws:
        """Return the random numbers for a sample's built-in transforms in an epoch."""
        if not self._dataset.decoder.random:
            return _NOTHING
        return Draws(combine(self._seed, epoch, _AUGMENT, sample))

    def image(self, payload: memoryview | None, epoch: int, sample: int) -> Any:
        """Decode one picture and apply all transforms.

        Raises:
            DamagedSample: The picture is missing or cannot be decoded.
        """
        decoder, draws = self._dataset.decoder, self.draws(epoch, sample)
        if decoder.decode == "bytes" or decoder.others:
            return decoder.image(payload, sample, draws)
        return decoder.pixels(payload, sample, draws)

    def collated(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Collate those columns of a mini-batch that are lists; keep the others as they are."""
        return {name: _collated(name, columns[name]) for name in self.names if name in columns}

    def mini_batch(self, collated: Mapping[str, Any]) -> Any:
        """Make a mini-batch of all collated columns, in the order of the fields."""
        if self.as_dict:
            return {name: collated[name] for name in self.names}
        return make_mini_batch(self.names, [collated[name] for name in self.names])


def _collated(name: str, column: Any) -> Any:
    if not isinstance(column, list):
        return column
    if name == LABEL:
        return collate_labels(column)
    return collate_images(column) if name == IMAGE else column
