"""Counts while a conversion runs, and the limit on what it may skip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from packer.packing.shards.batch import BatchResult
from packer.packing.skips import judge_skips
from packer.reporting import Progress, Reporter
from packer.types import Skip


@dataclass
class Tally:
    """Counts of processed samples; skips are checked against the limit as they arrive.

    Args:
        planned: Number of slots in all.
        allowed: How many samples may be skipped.
        reporter: Receives the progress.
        share: Number of slots of this run: fewer than `planned` if it makes one part.
    """

    planned: int
    allowed: int
    reporter: Reporter
    share: int
    done: int = 0
    skips: list[Skip] = field(default_factory=list)
    read: int = 0
    written: int = 0
    fresh: int = 0

    def add_earlier(self, slots: int, skips: Sequence[Skip]) -> None:
        """Count a shard that an earlier run made.

        Raises:
            TooManySkipped: The total now exceeds `allowed`.
        """
        self.done += slots
        self.skips += skips
        judge_skips(self.skips, self.planned, self.allowed)

    def add_batch(self, result: BatchResult) -> None:
        """Count a batch, or a piece of one, that was made in this run.

        Raises:
            TooManySkipped: The total now exceeds `allowed`.
        """
        written = sum(len(sample.payloads["image"]) for sample in result.samples)
        dealt = len(result.samples) + len(result.skips)
        self.add(dealt, result.skips, read=result.read, written=written)

    def add(self, slots: int, skips: Sequence[Skip], *, read: int, written: int) -> None:
        """Count samples of this run.

        Args:
            slots: Processed samples, skipped ones included.
            skips: The skipped ones.
            read: Bytes read for these samples.
            written: Bytes stored for these samples.

        Raises:
            TooManySkipped: The total now exceeds `allowed`.
        """
        self.done += slots
        self.fresh += slots
        self.skips += skips
        self.read += read
        self.written += written
        self.reporter.progress(
            Progress(
                done=self.done,
                total=self.share,
                skipped=len(self.skips),
                read=self.read,
                written=self.written,
                fresh=self.fresh,
            )
        )
        judge_skips(self.skips, self.planned, self.allowed)
