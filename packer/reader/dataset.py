"""The map-style data set: what ImageFolder is to a folder, for a pack."""

from __future__ import annotations

import copy
import operator
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from packer.attributes import read_only
from packer.errors import UsageError, suggestion
from packer.imaging.opencv import keep_to_one_thread
from packer.pack.opened import Pack
from packer.pack.payloads import Payloads
from packer.raised import named, runtime_error
from packer.reader import selection
from packer.reader.attributes import Assignments, PackAttributes
from packer.reader.batches.skipping import SkippedSample, Skips
from packer.reader.images import seeding
from packer.reader.images.decoding import IMAGE, Decoder
from packer.reader.order import ranks
from packer.reader.order.hashing import Draws
from packer.reader.selection import SelectedPack
from packer.reader.torchclass import seen_by_torch
from packer.reader.transforms import global_draws
from packer.staging.preload import open_pack
from packer.types import Array


class PackedDataset(PackAttributes):
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

    `transform` and `target_transform` can be assigned later, as ImageFolder's: the next loop uses
    the new ones (workers that a DataLoader keeps between epochs go on with the old ones). All other
    attributes are read-only.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: An invalid argument, or a split that is not there.
        DamageError: The pack does not hold what its manifest says.
        OutputError: No room for a copy, with the numbers.
    """

    decoder: Decoder

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
        self._transform = _kept(transform)
        self._target_transform = target_transform
        self._copied = stage, preload
        pack = open_pack(root, split, stage, preload)
        self._over(pack, (decode, decode_quality), verify, on_error)
        self._classes = list(self.pack.manifest.classes)
        self._class_to_idx = {name: label for label, name in enumerate(self._classes)}
        self._rank = 0  # as known where it was pickled
        self._entered = (0, 0)  # the process, and its rank, whose random streams are set up
        self._assigned: tuple[object, ...] = ()  # transforms that came after that
        self._streams: weakref.WeakSet[Assignments] | None = None  # where they are counted

    @property
    def transform(self) -> Callable[..., Any] | tuple[Callable[..., Any], ...] | None:
        """What is done to pictures; of several callables, a tuple.

        Raises:
            UsageError: On assignment, as on construction; then the old transforms stay.
        """
        return self._transform

    @transform.setter
    def transform(
        self, transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None
    ) -> None:
        kept = _kept(transform)
        self.decoder = Decoder(self.pack, self.decoder.decode, kept, self.decoder.quality)
        self._transform = kept
        self._note_assignment(*self.decoder.others)

    @property
    def target_transform(self) -> Callable[[int], Any] | None:
        """What is done to labels."""
        return self._target_transform

    @target_transform.setter
    def target_transform(self, target_transform: Callable[[int], Any] | None) -> None:
        self._target_transform = target_transform
        self._note_assignment(target_transform)

    def count_assignments(self) -> Assignments:
        """For a stream over this data set: counts what is assigned from now on."""
        assignments = Assignments()
        if self._streams is None:
            self._streams = weakref.WeakSet()
        self._streams.add(assignments)
        return assignments

    def alike(self, other: PackedDataset | None) -> bool:
        """Whether a copy of this data set has the same transforms still."""
        return (
            other is not None
            and self.decoder is other.decoder
            and self._target_transform is other._target_transform
        )

    def _note_assignment(self, *transforms: object) -> None:
        self._assigned += transforms
        for assignments in self._streams or ():
            assignments.note()

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
            fraction: Take a part, drawn at random and stratified by class: 0.1, or (0.8, 1.0).
                Parts of one size differ by one sample at most, parts that do not overlap share
                none, and parts that make up 1 leave none out.
            first: Take so many from the start.
            samples: Numbers of the samples to take, or a bool mask of all samples.
            seed: Of `fraction`.

        Raises:
            UsageError: An invalid condition.
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
        self.decoder = Decoder(pack, how[0], self._transform, how[1])
        self.skips = Skips(pack, on_error)

    def __len__(self) -> int:
        return len(self.pack)

    @overload
    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> PackedDataset: ...

    def __getitem__(self, index: SupportsIndex | slice) -> tuple[Any, Any] | PackedDataset:
        """(image, label) of one sample; counts from the end when negative. Of a slice: a selection,
        see `select`.

        Raises:
            IndexError: There is no such sample.
            UsageError: A slice that goes backwards: selections keep the pack's order.
            DamageError: The pack does not hold what its index says.
        """
        if isinstance(index, slice):
            return self.select(samples=selection.sliced(len(self), index))
        return self.__getitems__([index])[0]

    def __add__(self, other: Any) -> Any:
        """Both as one torch.utils.data.ConcatDataset, as torch's data sets add."""
        if not (hasattr(other, "__getitem__") and hasattr(other, "__len__")):
            return NotImplemented
        from torch.utils.data import ConcatDataset

        both: list[Any] = [self, other]
        return ConcatDataset(both)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What isinstance() compares beside the type itself: where torch is loaded, a class that
        is one of its data sets, too. Importing the reader does not import torch, and torch may be
        imported later than a data set is made.
        """
        return seen_by_torch(type(self))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.__getstate__())

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
        """Damaged samples that were left out so far (on_error="skip"), by this process and by its
        DataLoader workers.
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
            rank: If known; else as `packer.reader.order.ranks` finds it.

        Returns:
            The rank.
        """
        if rank is None:
            rank = self._known_rank()
        # A process that has read before its group came up did not know its rank.
        if self._entered != (os.getpid(), rank):
            self._entered = (os.getpid(), rank)
            self._assigned = ()
            seeding.separate((*self.decoder.others, self._target_transform), rank)
            if ranks.worker() is not None:
                _begin_worker()
        elif self._assigned:
            assigned, self._assigned = self._assigned, ()
            seeding.separate_held(assigned, rank)
        return rank

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_entered": (0, 0), "_assigned": (), "_streams": None}
        return {**self.__dict__, "_rank": self._known_rank(), **fresh}

    def _known_rank(self) -> int:
        # A spawned worker has no process group to ask: it was told when it was pickled. A spawned
        # rank was told what its parent knew, nothing: it can ask.
        return ranks.resolve(None, None)[0] or self._rank

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
        count = len(self)
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(
                f"a sample's number is an integer, not {type(index).__name__}; "
                "several samples: select(samples=…), or a slice"
            ) from None
        if not -count <= number < count:
            raise IndexError(f"sample {number} of {count}")
        return number % count


def _restored(kind: type[PackedDataset], state: dict[str, Any]) -> PackedDataset:
    dataset = kind.__new__(kind)
    dataset.__dict__.update(state)
    return dataset


def _kept(
    transform: Callable[..., Any] | Sequence[Callable[..., Any]] | None,
) -> Callable[..., Any] | tuple[Callable[..., Any], ...] | None:
    """A list of transforms as a tuple: who changes a list in place would change nothing else."""
    return transform if transform is None or callable(transform) else tuple(transform)


def _begin_worker() -> None:
    """What a DataLoader worker needs once; it has torch."""
    from packer.reader.batches.delivery import deliver_errors

    keep_to_one_thread()
    deliver_errors()
