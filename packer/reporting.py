"""Progress, notes and warnings of library code, which never prints: it calls a reporter."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Progress",
    "Reporter",
]


@dataclass(frozen=True)
class Progress:
    """Progress of a long operation.

    Attributes:
        done: Samples (or bytes) finished, including skipped samples and those of earlier runs.
        total: Total number of samples (or bytes).
        skipped: Samples skipped so far.
        read: Bytes read in this run.
        written: Bytes stored in this run.
        fresh: Samples (or bytes) finished in this run.
    """

    done: int
    total: int
    skipped: int = 0
    read: int = 0
    written: int = 0
    fresh: int = 0


class Reporter:
    """A reporter that does nothing; subclass it to receive notes, warnings and progress."""

    def note(self, text: str) -> None:
        """Receive one line about the current step."""

    def warn(self, text: str) -> None:
        """Receive one line about a problem that the user may want to fix."""

    def detail(self, text: str) -> None:
        """Receive one line of detail, for debugging."""

    def scanned(self, files: int) -> None:
        """Receive the number of pictures found so far, from time to time during a scan."""

    def progress(self, progress: Progress) -> None:
        """Receive the progress after every batch."""
