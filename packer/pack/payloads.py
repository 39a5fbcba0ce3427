"""Read payloads of samples by sample number, with their checksums compared.

Streams read a whole batch's span with one positional read; single samples are read by their ranges
alone. A payload's CRC-32 is compared when this process first returns it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np

from packer.arguments import check_choice
from packer.errors import DamagedSample
from packer.pack.opened import Pack
from packer.pack.shards import ShardFiles
from packer.types import ABSENT, Array

T = TypeVar("T")

Verify: TypeAlias = Literal["first", "always"]
VERIFY: tuple[Verify, ...] = get_args(Verify)
#: Ranges with at most this many bytes between them are read in one call. Half of Linux's read-ahead
#: (128 KiB), and at the 500 MB/s of a good network file system an eighth of a
#: millisecond of transfer, where another read would cost a round trip.
MERGE_GAP = 64 << 10
#: The same for data in the page cache: as many bytes are copied in the time of one call.
MERGE_GAP_CACHED = 8 << 10
#: Bytes that a format may add to a sample: headers, padding, the label.
_CONTAINER_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of one on-disk batch.

    Attributes:
        offset: Offset of its first byte in its shard.
        data: All its bytes.
    """

    offset: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Run:
    """A range to read, and the requested ranges in it.

    Attributes:
        shard: Number of the shard.
        start: Offset of its first byte.
        stop: Offset behind its last byte.
        members: Positions of the ranges in the request.
    """

    shard: int
    start: int
    stop: int
    members: tuple[int, ...]


class Payloads:
    """Reads payloads of a pack's samples. Safe after a fork and after pickling.

    Args:
        pack: The open pack.
        verify: "first": compare a payload's checksum when this process first returns it;
            "always": every time.

    Raises:
        UsageError: Unknown `verify`.
    """

    def __init__(self, pack: Pack, verify: str = "first") -> None:
        self.verify = check_choice("verify", verify, VERIFY)
        self.pack = pack
        self.files = ShardFiles(pack)
        self._start()

    def __reduce__(self) -> tuple[type[Payloads], tuple[Pack, str]]:
        return Payloads, (self.pack, self.verify)

    def read(
        self, samples: Sequence[int] | Array, field: str, announced: bool = False
    ) -> list[memoryview | None]:
        """Return one field of some samples, in their order; None if a sample lacks it.

        Reads their ranges and the small gaps between them.

        Args:
            samples: Their numbers.
            field: Name of the field.
            announced: Their batches were given to `advise` before: they are in the page cache, or
                on their way.

        Raises:
            DamageError: A payload does not match the index.
            PackerError: The file system failed.
        """
        wanted = np.asarray(samples, np.int64)
        index = self.pack.index
        shards = index["batch_shard"][self.pack.batch_of(wanted)]
        offsets, sizes = index[f"{field}.offset"][wanted], index[f"{field}.size"][wanted]
        gap = MERGE_GAP_CACHED if announced else MERGE_GAP
        runs = list(merge_runs(shards, offsets, sizes, gap))
        if len(runs) > 1 and not announced:
            for run in runs:
                self.files.advise(run.shard, run.start, run.stop - run.start)
        found: list[memoryview | None] = [None] * len(wanted)
        for run in runs:
            span = Span(run.start, self.files.read(run.shard, run.start, run.stop - run.start))
            members = list(run.members)
            payloads = self.cut([span] * len(members), wanted[members], field)
            for place, payload in zip(members, payloads, strict=True):
                found[place] = payload
        return found

    def steady(self, make: Callable[[], T]) -> T:
        """Return the result of `make`, which uses payloads and the index. `make` is called again if
        the times of their files have changed meanwhile, as checksums must be compared anew then.

        Raises:
            DamageError: Such a file has changed, whatever else that led to.
            Exception: What `make` raises.
        """
        while True:
            before = self.files.look()
            try:
                made = make()
            except Exception:
                self.files.look()
                raise
            if self.files.look() == before:
                return made

    def span(self, batch: int) -> Span:
        """All bytes of one on-disk batch that was announced, in one read; raises as `read`."""
        shard, offset, size = self._place(batch)
        return Span(offset, self.files.read(shard, offset, size, announced=True))

    def dense(self) -> Array:
        """Return bool, one per on-disk batch: whether its span holds little but samples of this
        pack. Spans of a selection also hold samples that were not selected.
        """
        index = self.pack.index
        counts, wanted = index["batch_count"], np.zeros(len(index["batch_count"]))
        batches = np.repeat(np.arange(len(counts)), counts)
        for name in self.pack.stored_fields():
            there = index[f"{name}.offset"] != ABSENT
            wanted += np.bincount(batches, index[f"{name}.size"] * there, len(counts))
        beside = index["batch_bytes"] - wanted
        dense: Array = beside <= wanted / 2 + counts * _CONTAINER_BYTES
        return dense

    def advise(self, batches: Array) -> None:
        """Advise the kernel that these on-disk batches will be read soon."""
        for batch in batches.tolist():
            self.files.advise(*self._place(batch))

    def cut(self, spans: Sequence[Span], samples: Array, field: str) -> list[memoryview | None]:
        """Return one field of some samples from the spans that hold them, with checksums compared;
        None if a sample lacks it.

        Args:
            spans: One span per sample.
            samples: int64, their numbers.
            field: Name of the field.

        Raises:
            DamagedSample: A checksum differs.
        """
        index, checked = self.pack.index, self._checked_of(field)
        passed = np.zeros(len(samples), np.bool_) if self.verify == "always" else checked[samples]
        found: list[memoryview | None] = []
        for span, offset, size, passes, sample in zip(
            spans,
            index[f"{field}.offset"][samples].tolist(),
            index[f"{field}.size"][samples].tolist(),
            passed.tolist(),
            samples.tolist(),
            strict=True,
        ):
            if offset == ABSENT:
                found.append(None)
                continue
            payload = span.data[offset - span.offset : offset - span.offset + size]
            if not passes:
                self._check(payload, sample, field)
                checked[sample] = True
            found.append(payload)
        return found

    def _place(self, batch: int) -> tuple[int, int, int]:
        index = self.pack.index
        return (
            int(index["batch_shard"][batch]),
            int(index["batch_offset"][batch]),
            int(index["batch_bytes"][batch]),
        )

    def _start(self) -> None:
        self._pid = os.getpid()
        self._changes = 0
        # One byte per sample and field. Fresh zero pages cost no memory until they are written.
        self._checked = {
            name: np.zeros(len(self.pack), np.bool_) for name in self.pack.stored_fields()
        }

    def _checked_of(self, field: str) -> Array:
        """Return bool, one per sample: whether this process has compared its checksum."""
        if self._pid != os.getpid() or self._changes != self.files.changes:
            self._start()  # checks of a parent process, or of another file, do not count
            self._changes = self.files.changes
        return self._checked[field]

    def _check(self, payload: memoryview, sample: int, field: str) -> None:
        if zlib.crc32(payload) != int(self.pack.index[f"{field}.crc32"][sample]):
            raise DamagedSample(
                f"{self.pack.describe(sample, field)}: its checksum differs",
                self.pack.verify_hint(),
                sample,
            )


def merge_runs(shards: Array, offsets: Array, sizes: Array, gap: int = MERGE_GAP) -> Iterator[Run]:
    """Return the reads that fetch some ranges: near ones together, never across shards.

    Args:
        shards: Shard of each wanted range.
        offsets: Its first byte; ABSENT ranges are left out.
        sizes: Its bytes.
        gap: Largest gap in bytes between two ranges that are read together.
    """
    order = np.lexsort((offsets, shards))
    members: list[int] = []
    shard = start = stop = -1
    for place in order.tolist():
        offset = int(offsets[place])
        if offset == ABSENT:
            continue
        if members and int(shards[place]) == shard and offset - stop <= gap:
            stop = max(stop, offset + int(sizes[place]))
            members.append(place)
            continue
        if members:
            yield Run(shard, start, stop, tuple(members))
        shard, start, stop = int(shards[place]), offset, offset + int(sizes[place])
        members = [place]
    if members:
        yield Run(shard, start, stop, tuple(members))
