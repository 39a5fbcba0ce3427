"""All errors that packer raises on purpose, with their exit codes.

    PackerError                1  something failed
    ├── OutputError            1  the output cannot be written (full, read-only, a file is there)
    │   ├── InUse              1  … another run works in the output folder
    │   └── WorkDone           1  … the run that was waited for has finished
    ├── MissingShards          1  parts of a pack have not been made yet
    ├── ReadError              1  the source cannot be read, or has changed
    ├── WorkerError            1  a worker process died
    ├── UsageError             2  an argument or option is invalid
    │   ├── ConfigError        2  … a value in a config, recipe or option
    │   ├── SourceError        2  … the source is missing, empty or of another kind
    │   ├── OtherPack          2  … a complete pack is there that was made of something else
    │   ├── MissingDependency  2  … a library is not installed; the hint is the command for it
    │   └── SamplerReplaced    2  … a framework creates a sampler anew and loses its options
    ├── TooManySkipped         3  more samples were skipped than --max-skipped allows
    ├── DamageError            4  a pack differs from its index or manifest
    │   └── DamagedSample      4  … one sample; streams and data sets can skip it
    ├── ImageError             1  one picture cannot be stored; becomes a line of skipped.jsonl
    └── Interrupted      128 + n  signal n (130 SIGINT, 143 SIGTERM)

All of them survive pickling, as they are sent between processes.
"""

from __future__ import annotations

import difflib
import signal
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = [
    "ConfigError",
    "DamageError",
    "DamagedSample",
    "ImageError",
    "InUse",
    "Interrupted",
    "MissingDependency",
    "MissingShards",
    "OutputError",
    "PackerError",
    "ReadError",
    "SamplerReplaced",
    "SourceError",
    "TooManySkipped",
    "UsageError",
    "WorkDone",
    "WorkerError",
]

#: The signals that ask packer to stop.
INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)
#: Exit code of a process that wrote to a closed pipe (`packer ls PACK | head -1`).
EXIT_BROKEN_PIPE: Final = 128 + signal.SIGPIPE


class PackerError(Exception):
    """Base of all errors that packer raises on purpose.

    Args:
        message: What is wrong and where (file, shard, batch, offset), in one line.
        hint: What to do about it, in one line; "" if there is no advice.
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
    """Another run works in the output folder."""


class WorkDone(OutputError):
    """The run that was waited for has finished and removed its lock folder; look again."""


class MissingShards(PackerError):
    """Parts of a pack have not been made yet.

    Args:
        message: See `PackerError`.
        hint: See `PackerError`.
        shards: File names of the missing shards.
        parts: Numbers of the parts to run again; empty if the work is not divided.
    """

    def __init__(
        self, message: str, hint: str = "", shards: Sequence[str] = (), parts: Sequence[int] = ()
    ) -> None:
        super().__init__(message, hint)
        self.args = (message, hint, shards, parts)
        self.shards = shards
        self.parts = parts


class ReadError(PackerError):
    """The source cannot be read, or changed while packer read it."""


class WorkerError(PackerError):
    """A worker process died, and its task could not be repeated."""


class UsageError(PackerError):
    """An argument or option is invalid."""

    exit_code = 2


class OtherPack(UsageError):
    """A complete pack was made from another source, or with other options."""


class ConfigError(UsageError):
    """A value in a config, a recipe or an option is invalid."""


class SourceError(UsageError):
    """The source is missing, empty or of another kind."""


class MissingDependency(UsageError):
    """A library or plug-in that is needed is not installed."""


class SamplerReplaced(UsageError, TypeError):
    """A framework creates a sampler anew without its options. Also a TypeError, which frameworks
    expect from a sampler that they cannot create.
    """


class TooManySkipped(PackerError):
    """More samples were skipped than the caller allows."""

    exit_code = 3


class DamageError(PackerError):
    """A pack differs from its index or manifest."""

    exit_code = 4


class DamagedSample(DamageError):
    """One sample of a pack is damaged; the others may be intact.

    Args:
        message: See `PackerError`.
        hint: See `PackerError`.
        sample: Number of the sample in its split; -1 if the error was created from its message
            alone in another process, as DataLoader does.
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
        detail: The exact cause in one line, without the path of the picture.
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


#: Least similarity for names of data sets: higher, as caltech101 is not caltech256.
SAME_DATA_SET: Final = 0.8
#: Names that other tools use for what packer offers under another name.
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
    """Return a hint for an unknown name: the closest known name, or all of them.

    Args:
        wrong: The unknown name, or a value of another type.
        known: All known names.
        likeness: Least similarity of the closest name, 0 to 1 (`difflib.get_close_matches`).
    """
    names = sorted(known)
    close = closest(wrong, names, likeness)
    return "known: " + ", ".join(names) if close is None else f"did you mean {close!r}?"


def closest(wrong: object, known: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the known name that was probably meant: packer's name for the same thing, else the
    most similar name; None if there is none.

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
