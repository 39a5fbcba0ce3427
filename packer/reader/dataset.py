"""The map-style data set: the replacement of ImageFolder for a pack."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from packer.arguments import explain_unknown
from packer.attributes import read_only
from packer.errors import UsageError, suggestion
from packer.pack.opened import Pack
from packer.pack.payloads import Payloads, Verify
from packer.raised import named, runtime_error
from packer.reader import selection
from packer.reader.attributes import PackAttributes, TransformAttributes, checked_target
from packer.reader.batches.skipping import OnError, SkippedSample, Skips
from packer.reader.elsewhere import what_to_write
from packer.reader.images.decoding import Decode, DecodeQuality, Decoder, Transform, kept
from packer.reader.images.stored import IMAGE
from packer.reader.order.hashing import Draws
from packer.reader.process import ReaderProcess
from packer.reader.selected import SelectedPack
from packer.reader.torchclass import TorchDataset
from packer.reader.transforms import global_draws
from packer.staging.preload import Preload, open_pack
from packer.types import Array


class PackedDataset(TorchDataset, PackAttributes, TransformAttributes):
    """One split of a pack, map-style: `dataset[i]` → (image, label).

    Works wherever torchvision's ImageFolder does, with and without torch. `__getitems__`, which
    DataLoader calls with a mini-batch's indices, reads the wanted ranges in few reads.

    Transforms follow one rule in PackedDataset, BatchStream, Loader and WindowSampler: built-in
    transforms (`packer.reader.transforms`) at the front of the list work on pixels; the callables
    behind them are called with what `decode` says, a PIL image by default, as ImageFolder calls
    them. Behind `Normalize`, they are called with an array H×W×3 float32.

    It pickles into little more than its class names, holds no object for each sample, and worker
    processes share the index's pages.

    `transform` and `target_transform` can be assigned later, as ImageFolder's: the next loop uses
    the new ones. (Workers that a DataLoader keeps between epochs go on with the old ones.) The
    other attributes are read-only.

    Args:
        root: The pack's folder.
        split: Name of the split.
        transform: A callable, or a list of callables that are applied in turn.
        target_transform: A callable; it is called with the label (int, -1 = none).
        decode: What callables are called with, and what `dataset[i]` gives without any. "pil": a
            PIL image of mode RGB; "numpy": an array H×W×3 uint8, RGB; "bytes": the coded picture as
            it is stored, without built-in transforms.
        decode_quality: "exact": pixels are those of decoding everything and then transforming.
            "fast": JPEGs with small deviations (for 99 % of photographs a PSNR of 36 dB or more
            against exact), and at a reduced size where built-in transforms shrink them to a
            quarter.
        verify: "first": a payload's checksum is compared when a process first reads it, and again
            once its shard has another size or other times; "always": at every read.
        on_error: What happens at a sample that is damaged or cannot be decoded. "raise": a
            DamageError; "skip": it is listed in `skipped`, and the next whole sample of its on-disk
            batch takes its place, so that no mini-batch shrinks. A warning names the first one.
        stage: A folder on a local disk or in memory of this machine: the split is read from a copy
            there, which is made once, whatever the number of processes, and stays.
        preload: The same in shared memory, for all processes of this machine. "ram": the copy is
            removed with the last of them; "shm": it stays in /dev/shm. None: no copy.

    Raises:
        SourceError: There is no pack, or an unfinished one.
        UsageError: An argument is invalid, or the pack has no such split.
        DamageError: The pack does not hold what its manifest says.
        MissingDependency: decode="pil" without Pillow, when a picture is decoded.
        OutputError: There is no room for a copy; the message has the numbers.
    """

    decoder: Decoder

    @explain_unknown(what_to_write)
    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        *,
        transform: Transform | None = None,
        target_transform: Callable[[int], Any] | None = None,
        decode: Decode = "pil",
        decode_quality: DecodeQuality = "exact",
        verify: Verify = "first",
        on_error: OnError = "raise",
        stage: str | os.PathLike[str] | None = None,
        preload: Preload | None = None,
    ) -> None:
        self._transform = kept(transform)
        self._target_transform = checked_target(target_transform)
        self._copied = stage, preload
        pack = open_pack(root, split, stage, preload)
        self._over(pack, (decode, decode_quality), verify, on_error)
        self._classes = list(self.pack.manifest.classes)
        self._class_to_idx = {name: label for label, name in enumerate(self._classes)}
        self._process = ReaderProcess()
        self._streams = None

    def select(
        self,
        *,
        classes: Sequence[str | int] | None = None,
        fraction: float | tuple[float, float] | None = None,
        first: int | None = None,
        samples: Array | Sequence[int] | None = None,
        seed: int = 0,
    ) -> PackedDataset:
        """Select samples as a data set of its own, for streams, samplers and by index.

        Its samples are numbered from 0, in the order of this data set; labels stay as they are.
        Streams read on-disk batches that hold few selected samples sample by sample. Several
        conditions apply in the order: samples, classes, fraction, first.

        Args:
            classes: Names or labels (-1: unlabelled) of the classes to take.
            fraction: The part to take, drawn at random and stratified by class: 0.1, or (0.8, 1.0).
                Parts of one size differ by one sample at most, parts that do not overlap share
                none, and parts that make up 1 leave none out.
            first: How many samples to take from the start.
            samples: Numbers of the samples to take, or a bool mask of all samples.
            seed: Seed of `fraction`.

        Raises:
            UsageError: A condition is invalid.
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
        """Make this the data set of a pack's samples; `how` is decode and decode_quality."""
        self.pack = pack
        self.payloads = Payloads(pack, verify)
        self.decoder = Decoder(pack, how[0], self._transform, how[1])
        self.skips = Skips(pack, on_error)

    def __len__(self) -> int:
        return len(self.pack)

    @overload
    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> PackedDataset: ...

    def __getitem__(self, index: SupportsIndex | slice) -> tuple[Any, Any] | PackedDataset:
        """(image, label) of one sample, counted from the end if negative; a selection for a slice.

        Raises:
            IndexError: There is no such sample.
            UsageError: The slice goes backwards: selections keep the pack's order.
            DamageError: The pack does not hold what its index says.
        """
        if isinstance(index, slice):
            return self.select(samples=selection.sliced(len(self), index))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[tuple[Any, Any]]:
        """(image, label) of several samples, in their order; raises as `__getitem__`."""
        rank = self.enter_process()

        def read(samples: Array) -> list[tuple[Any, Any]]:
            payloads = self.payloads.read(samples, IMAGE)
            return [
                self._pair(payload, sample, global_draws(rank))
                for sample, payload in zip(samples.tolist(), payloads, strict=True)
            ]

        wanted = np.array([self._sample(index) for index in indices], np.int64)
        return self.payloads.steady(lambda: self.skips.around(wanted, read))

    @read_only("it lists what was found")
    def skipped(self) -> list[SkippedSample]:
        """Damaged samples that this process and its DataLoader workers have left out so far
        (on_error="skip").
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

    def labels(self, samples: Array) -> list[Any]:
        """The labels of some samples, behind `target_transform`.

        Raises:
            Exception: What `target_transform` raises, with the sample's name.
        """
        labels: list[Any] = self.pack.index["label"][samples].tolist()
        if self._target_transform is None:
            return labels
        pairs = zip(labels, samples.tolist(), strict=True)
        return [self._target(self._target_transform, *pair) for pair in pairs]

    def image(self, payload: memoryview | None, sample: int, draws: Draws) -> Any:
        """The picture in a payload of `self.payloads`, behind all transforms.

        Raises:
            DamageError: The sample has no picture, or it cannot be decoded.
        """
        return self.decoder.image(payload, sample, draws)

    def enter_process(self, rank: int | None = None) -> int:
        """Set up this process as a reader of this rank, once: random streams and threads.

        Args:
            rank: The rank, if known; None: as `packer.reader.order.ranks` finds it.

        Returns:
            The rank.
        """
        return self._process.enter((*self.decoder.others, self._target_transform), rank)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has processes and streams of its own.
        return {**self.__dict__, "_process": copy.copy(self._process), "_streams": None}

    def __repr__(self) -> str:
        return (
            f"PackedDataset({self.root!r}, {self.split!r}): {len(self)} samples, "
            f"{len(self.classes)} classes, decode={self.decode!r}"
        )

    def _pair(self, payload: memoryview | None, sample: int, draws: Draws) -> tuple[Any, Any]:
        transform = self._target_transform
        label = int(self.pack.index["label"][sample])
        try:
            image = self.image(payload, sample, draws)
            return image, label if transform is None else self._target(transform, label, sample)
        except IndexError as error:
            # As itself, it would end a `for` loop over the data set, or over a Subset of it.
            where = f"{self.pack.describe(sample, IMAGE)}: a transform"
            raise runtime_error(error, where) from error

    def _target(self, transform: Callable[[int], Any], label: int, sample: int) -> Any:
        try:
            return transform(label)
        except BaseException as error:
            where = self.pack.describe(sample, IMAGE)
            raise named(error, "target_transform", where)  # noqa: B904 - the same, or its cause is

    def _sample(self, index: SupportsIndex) -> int:
        return selection.sample_number(index, len(self))
