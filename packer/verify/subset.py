"""How much of a pack is verified: some of its batches, or as much as there is time for."""

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
        share: Part of them to draw at random, above 0, at most 1.
        part: (K, N): those whose number mod N is K, instead.
    """

    share: float = 1.0
    part: tuple[int, int] | None = None

    def choose(self, batches: int, rng: random.Random) -> list[int]:
        """Numbers of the chosen batches, ascending; at least one, if there are any.

        Args:
            batches: How many there are.
            rng: Draws them, where a share is wanted.
        """
        if self.part is not None:
            number, parts = self.part
            return list(range(number, batches, parts))
        return sorted(rng.sample(range(batches), min(batches, max(1, round(batches * self.share)))))


def parse_subset(text: str) -> Subset:
    """ "5%" → a twentieth, drawn at random; "3/20" → part 3, from 0, of 20.

    Raises:
        ConfigError: Neither; or no part at all, or more than everything.
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
    """What is still to be done: until the time is up, and how far it is.

    Args:
        total: Bytes to be read, as far as known.
        minutes: How long new tasks are begun; None: until there are none left.
        reporter: Hears how far the work is.

    Attributes:
        is_stopped: Whether tasks were left when the time was up.
    """

    def __init__(self, total: int, minutes: float | None, reporter: Reporter) -> None:
        self.is_stopped = False
        self._total, self._done = total, 0
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._reporter = reporter

    def begin(self, tasks: Iterable[T]) -> Iterator[T]:
        """The tasks, as long as there is time."""
        for task in tasks:
            if self._end is not None and time.monotonic() >= self._end:
                self.is_stopped = True
                return
            yield task

    def done(self, size: int) -> None:
        """Report that as many bytes are dealt with."""
        # Samples of damaged shards are read too, which nobody knew before.
        self._done = min(self._done + size, self._total)
        self._reporter.progress(
            Progress(self._done, self._total, read=self._done, fresh=self._done)
        )


class ComparedBytes(Reporter):
    """Hears of pictures that are compared, and reports them as bytes of a pack.

    Args:
        work: What they are a part of.
        size: Bytes that all of them stand for.
        reporter: Hears everything else.
    """

    def __init__(self, work: Work, size: int, reporter: Reporter) -> None:
        self._work, self._size, self._reporter = work, size, reporter
        self._told = 0

    def note(self, text: str) -> None:
        """Handed on."""
        self._reporter.note(text)

    def warn(self, text: str) -> None:
        """Handed on."""
        self._reporter.warn(text)

    def detail(self, text: str) -> None:
        """Handed on."""
        self._reporter.detail(text)

    def scanned(self, files: int) -> None:
        """Handed on."""
        self._reporter.scanned(files)

    def progress(self, progress: Progress) -> None:
        """In bytes."""
        reached = self._size * progress.done // max(1, progress.total)
        self._work.done(reached - self._told)
        self._told = reached
