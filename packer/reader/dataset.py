"""The map-style data set: what ImageFolder is to a folder, for a pack."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from packer.imaging.opencv import keep_to_one_thread
from packer.reader import ranks, seeding
from packer.reader.decoding import IMAGE, Decoder
from packer.reader.hashing import Draws
from packer.reader.pack import Pack
from packer.reader.payloads import Payloads
from packer.reader.transforms import global_draws
from packer.reader.views import Keys, Samples
from packer.types import Array


class PackedDataset:
    """One split of a pack, a sample at a time: `[i]` → (image, label).

    Works wherever torchvision's ImageFolder does, with and without torch. `__getitems__`, which
    DataLoader calls with a mini-batch's indices, reads the wanted ranges in few reads.

    It pickles into little more than its class names, holds no object a sample, and worker
    processes share the index's pages.

    Args:
        root: The pack's folder.
        split: Name of the split.
        transform: A callable, or a list of them; gets what `decode` says. Built-in ones
            (`packer.reader.transforms`) at the front of the list work on pixels.
        target_transform: A callable; gets the label (int, -1 = none).
        decode: "pil": PIL images; "numpy": H×W×3 uint8, RGB; "bytes": as stored.
        verify: "first": a payload's checksum is compared when a process first reads it;
            "always": at every read.

    Attributes:
        transform: As given.
        target_transform: As given.
        classes: Names of the classes.
        class_to_idx: Label by class name.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: An argument that cannot be, or a split that is not there.
        DamageError: The pack does not hold what its manifest says.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        *,
        transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        decode: str = "pil",
        verify: str = "first",
    ) -> None:
        self.pack = Pack(root, split)
        self.payloads = Payloads(self.pack, verify)
        self.decoder = Decoder(self.pack, decode, transform)
        self.transform = transform
        self.target_transform = target_transform
        self.classes = list(self.pack.manifest.classes)
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        self._rank = 0  # as known where it was pickled
        self._entered = 0  # the process whose random streams are set up

    def __len__(self) -> int:
        return len(self.pack)

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]:
        """(image, label) of one sample; counts from the end when negative.

        Raises:
            IndexError: There is no such sample.
            DamageError: The pack does not hold what its index says.
        """
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[tuple[Any, Any]]:
        """(image, label) of several samples, in their order; raises as `__getitem__`."""
        rank = self.enter_process()
        samples = [self._sample(index) for index in indices]
        payloads = self.payloads.read(samples, IMAGE)
        labels = self.pack.index["label"]
        return [
            (self.image(payload, sample, global_draws(rank)), self.target(int(labels[sample])))
            for sample, payload in zip(samples, payloads, strict=True)
        ]

    @property
    def root(self) -> str:
        """The pack's folder."""
        return str(self.pack.root)

    @property
    def split(self) -> str:
        """Name of the split."""
        return self.pack.split

    @property
    def targets(self) -> Array:
        """int64, the label of each sample, read-only; -1 = none."""
        targets = self.pack.index["label"].astype(np.int64)
        targets.flags.writeable = False
        return targets

    @property
    def keys(self) -> Keys:
        """The samples' original paths, as text."""
        return Keys(self.pack)

    @property
    def samples(self) -> Samples:
        """(original path, label) of each sample."""
        return Samples(self.pack)

    imgs = samples

    def target(self, label: int) -> Any:
        """A label behind `target_transform`."""
        return label if self.target_transform is None else self.target_transform(label)

    def image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        """The picture in a payload of `self.payloads`, behind all transforms.

        Raises:
            DamageError: The sample has no picture, or it cannot be decoded.
        """
        return self.decoder.image(payload, sample, draws)

    def enter_process(self, rank: int | None = None) -> int:
        """Set up this process as a reader, once: random streams and threads.

        Args:
            rank: If known; else as `packer.reader.ranks` finds it.

        Returns:
            The rank.
        """
        if rank is None:
            rank = self._known_rank()
        if self._entered != os.getpid():
            self._entered = os.getpid()
            seeding.separate((*self.decoder.others, self.target_transform), rank)
            if ranks.worker() is not None:
                keep_to_one_thread()
        return rank

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rank": self._known_rank(), "_entered": 0}

    def _known_rank(self) -> int:
        # A spawned worker has no process group to ask: it was told when it was pickled. A spawned
        # rank was told what its parent knew, nothing: it can ask.
        return ranks.resolve(None, None)[0] or self._rank

    def __repr__(self) -> str:
        return (
            f"PackedDataset({self.root!r}, {self.split!r}): {len(self)} samples, "
            f"{len(self.classes)} classes, decode={self.decoder.decode!r}"
        )

    def _sample(self, index: SupportsIndex) -> int:
        count, number = len(self), operator.index(index)
        if not -count <= number < count:
            raise IndexError(f"sample {number} of {count}")
        return number % count
