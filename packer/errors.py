"""Every error packer raises on purpose, and the exit code each one owns.

    PackerError                1  something failed
    ├── OutputError            1  the output cannot be written (full, read-only, in the way)
    │   ├── InUse              1  … another run is at work there
    │   └── WorkDone           1  … the run that was waited for is done
    ├── MissingShards          1  parts of a pack are still to be made
    ├── ReadError              1  the source cannot be read, or changed meanwhile
    ├── WorkerError            1  a worker process died
    ├── UsageError             2  the caller asked for something that cannot be
    │   ├── ConfigError        2  … in a config, recipe or option value
    │   ├── SourceError        2  … the source is missing, empty or not what it should be
    │   ├── MissingDependency  2  … a library is not installed; says the line that installs it
    │   └── SamplerReplaced    2  … a framework makes a sampler anew and loses its options
    ├── TooManySkipped         3  more samples skipped than --max-skipped allows
    ├── DamageError            4  a pack does not hold what its index and manifest say
    │   └── DamagedSample      4  … one sample of it; streams and data sets can go on without it
    ├── ImageError             1  one picture cannot be stored; becomes a line of the ledger
    └── Interrupted      128 + n  signal n (130 SIGINT, 143 SIGTERM)

All of them survive pickling, as they cross process borders.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Sequence
from typing import Final

#: The signals that ask packer to stop.
INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)
#: What a shell reports for a process that wrote to a closed pipe (`packer ls PACK | head -1`).
EXIT_BROKEN_PIPE: Final = 128 + signal.SIGPIPE


class PackerError(Exception):
    """Base of all errors that packer raises on purpose.

    Args:
        message: What is wrong and where (file, shard, batch, offset), in one line.
        hint: What to do about it, in one line; empty if nothing can be said.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class OutputError(PackerError):
    """The output cannot be written."""


class InUse(OutputError):
    """Another run is at work in the output folder."""


class WorkDone(OutputError):
    """The run that was waited for is done: the folder of its locks has gone. Look again."""


class MissingShards(PackerError):
    """Parts of a pack are still to be made.

    Args:
        message: As above.
        hint: As above.
        shards: File names of the missing shards.
        parts: Numbers of the parts that make them; empty if the work is not divided.
    """

    def __init__(
        self, message: str, hint: str = "", shards: Sequence[str] = (), parts: Sequence[int] = ()
    ) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, shards, parts)
        self.shards = shards
        self.parts = parts


class ReadError(PackerError):
    """The source cannot be read, or changed while it was being read."""


class WorkerError(PackerError):
    """A worker process died and its work could not be done again."""


class UsageError(PackerError):
    """The caller asked for something that cannot be."""

    exit_code = 2


class ConfigError(UsageError):
    """A config, a recipe or an option holds a value that cannot be."""


class SourceError(UsageError):
    """The source is missing, empty or not what it should be."""


class MissingDependency(UsageError):
    """A library that this needs is not installed."""


class SamplerReplaced(UsageError, TypeError):
    """A framework makes a sampler anew, without the options that it had. A TypeError, too, as
    frameworks expect one from a sampler that they cannot make.
    """


class TooManySkipped(PackerError):
    """More samples were skipped than the caller allows."""

    exit_code = 3


class DamageError(PackerError):
    """A pack does not hold what its index and manifest say."""

    exit_code = 4


class DamagedSample(DamageError):
    """One sample of a pack is damaged; the others may not be.

    Args:
        message: As above.
        hint: As above.
        sample: Its number in its split; -1 where an error that crossed a process border was made
            anew from its message alone, as DataLoader does.
    """

    def __init__(self, message: str, hint: str = "", sample: int = -1) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, sample)
        self.sample = sample


class ImageError(PackerError):
    """One picture cannot be stored.

    Args:
        reason: A short word for the ledger: truncated, damaged, undecodable, unsupported,
            empty, too-large, unreadable, bad-size, missing.
        detail: What exactly, in one line, without the picture's path.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.message = f"{reason}: {detail}"
        self.hint = ""


class Interrupted(PackerError):
    """A signal asked packer to stop.

    Args:
        signal_number: SIGINT or SIGTERM.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.args = (signal_number,)
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


#: Least likeness of a data set's name: there are many, and caltech101 is not caltech256.
SAME_DATA_SET: Final = 0.8
#: What other tools and people call what packer offers under another name.
_OTHER_NAMES: Final = {
    "webdataset": "tar",
    "wds": "tar",
    "h5": "hdf5",
    "jpg": "jpeg",
    "numpy": "raw",
    "npy": "raw",
    "area": "box",
    "linear": "bilinear",
    "cubic": "bicubic",
    "random": "shuffled",
    "process": "loky",
    "multiprocessing": "loky",
    "thread": "threading",
    "validate": "verify",
    "check": "verify",
    "list": "ls",
    "download": "fetch",
}


def suggestion(wrong: object, known: Iterable[str], likeness: float = 0.5) -> str:
    """One line for an unknown name: the closest known name, or all of them.

    Args:
        wrong: The unknown name, or a value of another type.
        known: All known names.
        likeness: Least likeness of the closest one, from 0 to 1 (`difflib.get_close_matches`).
    """
    names = sorted(known)
    close = closest(wrong, names, likeness)
    return "known: " + ", ".join(names) if close is None else f"did you mean {close!r}?"


def closest(wrong: object, known: Iterable[str], likeness: float = 0.5) -> str | None:
    """The known name that was probably meant: the one that packer uses for what other tools call
    `wrong`, else the most similar one; None if there is none.

    Args:
        wrong: As for `suggestion`.
        known: As for `suggestion`.
        likeness: As for `suggestion`.
    """
    if not isinstance(wrong, str):
        return None
    names = sorted(known)
    same = _OTHER_NAMES.get(wrong.lower())
    if same in names:
        return same
    return next(iter(difflib.get_close_matches(wrong.lower(), names, n=1, cutoff=likeness)), None)
