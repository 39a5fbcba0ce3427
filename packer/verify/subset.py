"""Choose the part of a pack to verify: some of its batches, or as many as the time allows."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from packer.errors import ConfigError
from packer.reporting import Progress, Reporter
from packer.settings.parsing import parse_part

T = TypeVar("T")

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)\s*%", re.ASCII)


@dataclass(frozen=True)
class Subset:
    """Some of a pack's batches.

    Attributes:
        share: Fraction of them to draw at random, above 0, at most 1.
        part: (K, N): those whose number mod N is K, instead.
    """

    share: float = 1.0
    part: tuple[int, int] | None = None

    def choose(self, batches: int, rng: random.Random) -> list[int]:
        """Return the numbers of the chosen batches, ascending; at least one, if there are any.

        Args:
            batches: Number of batches.
            rng: Draws them if `share` is given.
        """
        if self.part is not None:
            number, parts = self.part
            return list(range(number, batches, parts))
        return sorted(rng.sample(range(batches), min(batches, max(1, round(batches * self.share)))))


def parse_subset(text: str) -> Subset:
    """Parse "5%" (a twentieth, drawn at random) or "3/20" (part 3, counted from 0, of 20).

    Raises:
        ConfigError: It has neither form, or its value is out of range.
    """
    if (part := parse_part(text)) is not None and part[0] < part[1]:
        return Subset(part=part)
    match = _PERCENT.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise ConfigError(
            f"sample {text!r} is neither a share nor a part",
            "for example 5%, or K/N with K from 0 to N-1",
        )
    return Subset(share=float(match[1]) / 100)


class Work:
    """The remaining tasks, until the time is up, and their progress.

    Args:
        total: Estimated number of bytes to read.
        minutes: Time during which new tasks are started; None: without limit.
        reporter: Called with the progress.

    Attributes:
        is_stopped: Whether tasks were left when the time was up.
    """

    def __init__(self, total: int, minutes: float | None, reporter: Reporter) -> None:
        self.is_stopped = False
        self._total, self._done = total, 0
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._reporter = reporter

    def begin(self, tasks: Iterable[T]) -> Iterator[T]:
        """Yield the tasks until the time is up."""
        for task in tasks:
            if self._end is not None and time.monotonic() >= self._end:
                self.is_stopped = True
                return
            yield task

    def done(self, size: int) -> None:
        """Report that this many bytes are done."""
        # Samples of damaged shards are read too, which the estimate does not include.
        self._done = min(self._done + size, self._total)
        self._reporter.progress(
            Progress(self._done, self._total, read=self._done, fresh=self._done)
        )


class ComparedBytes(Reporter):
    """A reporter that converts the count of compared pictures into bytes of a pack.

    Args:
        work: The work that they are a part of.
        size: Number of bytes that all of them stand for.
        reporter: Receives all other events.
    """

    def __init__(self, work: Work, size: int, reporter: Reporter) -> None:
        self._work, self._size, self._reporter = work, size, reporter
        self._told = 0

    def note(self, text: str) -> None:
        """Pass the event on."""
        self._reporter.note(text)

    def warn(self, text: str) -> None:
        """Pass the event on."""
        self._reporter.warn(text)

    def detail(self, text: str) -> None:
        """Pass the event on."""
        self._reporter.detail(text)

    def scanned(self, files: int) -> None:
        """Pass the event on."""
        self._reporter.scanned(files)

    def progress(self, progress: Progress) -> None:
        """Report the pictures as bytes."""
        reached = self._size * progress.done // max(1, progress.total)
        self._work.done(reached - self._told)
        self._told = reached
