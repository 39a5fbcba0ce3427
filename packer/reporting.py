"""How library code tells what it does: it never prints, it calls a reporter."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Progress",
    "Reporter",
]


@dataclass(frozen=True)
class Progress:
    """How far a long work is.

    Attributes:
        done: Samples dealt with, skipped ones too; those of earlier runs count.
        total: Samples in all.
        skipped: Samples skipped so far.
        read: Bytes read in this run.
        written: Bytes stored in this run.
        fresh: Samples dealt with in this run.
    """

    done: int
    total: int
    skipped: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0


class Reporter:
    """Keeps silent; the command line and callers who want to hear derive from it."""

    def note(self, text: str) -> None:
        """One line about what is going on."""

    def warn(self, text: str) -> None:
        """One line about something that the user may want to mend."""

    def detail(self, text: str) -> None:
        """One line that only somebody who looks for something wants to see."""

    def scanned(self, files: int) -> None:
        """Called now and then while a source is scanned: the pictures found so far."""

    def progress(self, progress: Progress) -> None:
        """Called after every batch."""
