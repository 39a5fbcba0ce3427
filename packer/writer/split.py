"""Write one split of a pack sample by sample; finished shards stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packer.files.fsio import remove_if_there
from packer.formats import load_format
from packer.notes import note_names
from packer.pack.columns import ShardRecord, index_name, read_path
from packer.pack.index_form import open_shard_index
from packer.packing.shards.shard import WORK_FOLDER, ShardBuilder
from packer.packing.shards.state import ShardState, read_shard_state, write_shard_state
from packer.types import Field, Sample


@dataclass(frozen=True)
class SplitTarget:
    """Where and how a split's shards are made.

    Attributes:
        out: The pack's folder.
        format: tar, lmdb, hdf5.
        fields: Fields of every sample.
        batch_size: Samples in an on-disk batch.
        shard_size: Target size of a shard, in bytes.
        one_size: Whether all pictures have the same size.
    """

    out: Path
    format: str
    fields: Sequence[Field]
    batch_size: int
    shard_size: int
    one_size: bool

    def shard_name(self, split: str, number: int) -> str:
        """File name of a shard."""
        return f"{split}-{number:06d}.{load_format(self.format).EXTENSION}"


@dataclass
class Finished:
    """Samples that an earlier run finished.

    Attributes:
        slots: Slots of the samples in finished shards, by path.
        notes: Number of their pictures by note.
        size: (width, height) of one picture; None if there is none.
    """

    slots: dict[bytes, int] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    size: tuple[int, int] | None = None


class SplitWriter:
    """Write one split's shards, one after the other. Each finished shard is published with its
    state, so that another process can continue after it.

    Args:
        target: Where and how the shards are made.
        split: Name of the split.

    Attributes:
        records: Records of the finished shards.
    """

    def __init__(self, target: SplitTarget, split: str) -> None:
        self.records: list[ShardRecord] = []
        self._target = target
        self._split = split
        self._waiting: list[Sample] = []
        self._builder: ShardBuilder | None = None
        self._bytes = 0
        self._notes: Counter[str] = Counter()

    def take_over(self, finished: Finished) -> None:
        """Continue after the shards that an earlier run finished, and add them to `finished`.

        Raises:
            OutputError: A shard's state cannot be read.
        """
        out = self._target.out
        while (out / self._name).exists():
            state = read_shard_state(out, Path(self._name).stem)
            index = open_shard_index(out, state.record, self._target.fields)
            for sample, slot in enumerate(index["slot"].tolist()):
                finished.slots[read_path(index, sample)] = slot
            if state.record.samples:
                finished.size = int(index["width"][0]), int(index["height"][0])
            finished.notes.update(state.notes)
            self.records.append(state.record)

    def add(self, sample: Sample) -> None:
        """Add a sample.

        Raises:
            OutputError: The file system refused.
        """
        self._waiting.append(sample)
        self._notes.update(note_names(sample.notes))
        if len(self._waiting) == self._target.batch_size:
            self._write_batch()
            if self._bytes >= self._target.shard_size:
                self._finish_shard()

    def flush(self) -> None:
        """Write the waiting samples and finish the last shard."""
        if self._waiting:
            self._write_batch()
        if self._builder is not None:
            self._finish_shard()

    def abandon(self) -> None:
        """Remove the unfinished shard."""
        if self._builder is not None:
            self._builder.abort()
            self._builder = None

    def remove(self) -> None:
        """Remove all of this split's files."""
        self.abandon()
        out = self._target.out
        for record in self.records:
            remove_if_there(out / record.name)
            remove_if_there(out / index_name(record.name))
        remove_if_there(out / index_name(self._split))

    @property
    def _name(self) -> str:
        """File name of the next shard."""
        return self._target.shard_name(self._split, len(self.records))

    def _write_batch(self) -> None:
        target = self._target
        if self._builder is None:
            self._builder = ShardBuilder(
                target.out, self._name, target.format, target.fields, target.one_size
            )
        self._builder.add_batch(self._waiting)
        self._bytes += sum(
            len(payload) for sample in self._waiting for payload in sample.payloads.values()
        )
        self._waiting = []

    def _finish_shard(self) -> None:
        assert self._builder is not None, "called with a shard open"
        record = self._builder.finish()
        state = ShardState(record, (), self._notes, stamps="")
        write_shard_state(self._target.out, Path(record.name).stem, state)
        self._builder.publish()
        self.records.append(record)
        self._builder, self._bytes, self._notes = None, 0, Counter()


def splits_there(target: SplitTarget) -> list[str]:
    """Names of the splits with a finished shard in an unfinished pack."""
    ending = target.shard_name("", 0)
    return sorted(
        path.name.removesuffix(ending)
        for path in target.out.iterdir()
        if path.name.endswith(ending) and (target.out / WORK_FOLDER / f"{path.stem}.json").exists()
    )
