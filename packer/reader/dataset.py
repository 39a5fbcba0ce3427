"""The map-style data set: what ImageFolder is to a folder, for a pack."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from packer.errors import UsageError, suggestion
from packer.imaging.opencv import keep_to_one_thread
from packer.reader import ranks, seeding, selection
from packer.reader.decoding import IMAGE, Decoder
from packer.reader.hashing import Draws
from packer.reader.pack import Pack
from packer.reader.payloads import Payloads
from packer.reader.preload import open_pack
from packer.reader.selection import SelectedPack
from packer.reader.skipping import SkippedSample, Skips
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
        decode_quality: "exact": pictures are as if they were decoded whole and then transformed.
            "fast": JPEGs with small deviations (99 % of photographs: PSNR against exact of 36 dB
            or more), and at a reduced size where built-in transforms shrink them to a quarter.
        verify: "first": a payload's checksum is compared when a process first reads it, and again
            once its shard has another size or other times; "always": at every read.
        on_error: What a sample does that is damaged or cannot be decoded. "raise": it raises
            DamageError; "skip": it is listed in `skipped`, and the next whole sample of its on-disk
            batch takes its place, so that no mini-batch shrinks. The first one is warned of.
        stage: A folder on a local disk or in memory of this machine: the split is read from a copy
            there, which is made once, whatever the number of processes, and stays.
        preload: The same in shared memory, for all processes of this machine: "ram": until the last
            of them has gone; "shm": in /dev/shm, to stay.

    Attributes:
        transform: As given.
        target_transform: As given.
        classes: Names of the classes.
        class_to_idx: Label by class name.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: An argument that cannot be, or a split that is not there.
        DamageError: The pack does not hold what its manifest says.
        OutputError: No room for a copy, with the numbers.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        *,
        transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        decode: str = "pil",
        decode_quality: str = "exact",
        verify: str = "first",
        on_error: str = "raise",
        stage: str | os.PathLike[str] | None = None,
        preload: str | None = None,
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform
        pack = open_pack(root, split, stage, preload)
        self._over(pack, (decode, decode_quality), verify, on_error)
        self.classes = list(self.pack.manifest.classes)
        self.class_to_idx = {name: label for label, name in enumerate(self.classes)}
        self._rank = 0  # as known where it was pickled
        self._entered = 0  # the process whose random streams are set up

    def select(
        self,
        *,
        classes: Sequence[str | int] | None = None,
        fraction: float | tuple[float, float] | None = None,
        first: int | None = None,
        samples: Array | Sequence[int] | None = None,
        seed: int = 0,
    ) -> PackedDataset:
        """Some of the samples as a data set of its own, for streams, samplers and by index.

        Its samples are numbered anew from 0, in this one's order; labels stay as they are. Streams
        read on-disk batches that hold few selected samples sample by sample. Several conditions
        apply in the order: samples, classes, fraction, first.

        Args:
            classes: Names or labels (-1: unlabelled) of the classes to take.
            fraction: Take a part of each class, drawn at random: 0.1, or (0.8, 1.0). Parts that do
                not overlap share no sample; parts that make up 1 leave none out.
            first: Take so many from the start.
            samples: Numbers of the samples to take, or a bool mask of all samples.
            seed: Of `fraction`.

        Raises:
            UsageError: A condition that cannot be.
        """
        pack = self.pack
        if samples is not None:
            pack = SelectedPack(pack, selection.listed(pack, samples))
        if classes is not None:
            pack = SelectedPack(pack, selection.of_classes(pack, classes))
        if fraction is not None:
            pack = SelectedPack(pack, selection.of_fraction(pack, fraction, seed))
        if first is not None:
            pack = SelectedPack(pack, np.arange(len(pack)) < max(0, first))
        selected = copy.copy(self)
        how = self.decoder.decode, self.decoder.quality
        selected._over(pack, how, self.payloads.verify, self.skips.on_error)
        return selected

    def _over(self, pack: Pack, how: tuple[str, str], verify: str, on_error: str) -> None:
        """Be the data set of these samples; `how` is decode and decode_quality."""
        self.pack = pack
        self.payloads = Payloads(pack, verify)
        self.decoder = Decoder(pack, how[0], self.transform, how[1])
        self.skips = Skips(pack, on_error)

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
        labels = self.pack.index["label"]

        def read(samples: Array) -> list[tuple[Any, Any]]:
            payloads = self.payloads.read(samples, IMAGE)
            return [
                (self.image(payload, sample, global_draws(rank)), self.target(int(labels[sample])))
                for sample, payload in zip(samples.tolist(), payloads, strict=True)
            ]

        wanted = np.array([self._sample(index) for index in indices], np.int64)
        return self.payloads.steady(lambda: self.skips.around(wanted, read))

    @property
    def skipped(self) -> list[SkippedSample]:
        """Damaged samples that were left out so far (on_error="skip"): by this process and, where
        torch was imported before the data set was made, by its DataLoader workers.
        """
        return self.skips.skipped()

    def field(self, name: str, index: SupportsIndex) -> bytes | None:
        """The stored bytes of one field of one sample; None if the sample lacks it.

        Raises:
            UsageError: The pack has no such field.
            IndexError: There is no such sample.
            DamageError: The pack does not hold what its index says.
        """
        known = self.pack.stored_fields()
        if name not in known:
            raise UsageError(f"unknown field {name!r}", suggestion(name, known))
        sample = self._sample(index)

        def read() -> bytes | None:
            payload = self.payloads.read([sample], name)[0]
            return None if payload is None else bytes(payload)

        return self.payloads.steady(read)

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
        self.pack.index.confirm()
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
