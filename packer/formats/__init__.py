"""How batches of samples become one shard file: one file a format.

Each module has

    EXTENSION: str          the shard's extension
    EXTRA: str              the library it needs beside the base install, "" if none
    Writer                  a class of the shape of `ShardWriter`, below

Reading needs nothing of this: every format keeps a batch as one contiguous range of the file, and
`packer.reader` reads those ranges. `README.md` beside this file is the spec.
`tests/formats/test_conformance.py` holds every format that is here to the same rules.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from packer import registry
from packer.errors import MissingDependency
from packer.installing import install_line
from packer.types import Field, Sample, ShardLayout


class ShardWriter(Protocol):
    """Writes one shard to a temp name; publishing it is the caller's.

    Equal calls write equal bytes: no times, hosts, random numbers.

    Args:
        path: File to make; must not exist.
        fields: Fields of every sample.
        one_size: Whether all pictures have the same size (codec raw: pixels can be one array).

    Raises:
        OutputError: The file cannot be made.
        MissingDependency: The format's library is not installed.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None: ...

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch; an empty one is a batch too.

        Raises:
            OutputError: The file system or the format's library refused.
        """

    def close(self) -> ShardLayout:
        """Finish the file, synced to disk.

        Raises:
            OutputError: As above; a full disk may show only here.
        """

    def abort(self) -> None:
        """Close what is open, without finishing; never raises. The caller removes the file."""


def require(name: str) -> None:
    """Check that a format can be written here, before any work is done.

    Raises:
        MissingDependency: Its library is not installed.
    """
    library = registry.load("formats", name).EXTRA
    if library and importlib.util.find_spec(library) is None:
        raise missing_library(library)


def missing_library(name: str) -> MissingDependency:
    """The error for a format whose library is not there."""
    return MissingDependency(
        f"this format needs {name}, which is not installed", install_line(name)
    )
