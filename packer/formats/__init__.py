"""How batches of samples become one shard file: one file a format.

Each module has the names of `Format`, below; other distributions add theirs by entry points of the
group `packer.formats` (docs/extending.md). Reading needs no format module: every format keeps a
batch as one contiguous range of the file, and `packer.reader` reads those ranges. `README.md`
beside this file is the specification. `packer.testing.FormatSuite` holds every format to the same
rules.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from packer import registry
from packer.errors import MissingDependency
from packer.formats._newfile import NewFile
from packer.formats._places import EndToEnd
from packer.installing import install_line
from packer.types import Field, Sample, ShardLayout

__all__ = [
    "EndToEnd",
    "Format",
    "NewFile",
    "ShardWriter",
    "load_format",
    "missing_library",
    "require",
]


class ShardWriter(Protocol):
    """Writes one shard under a temporary name; the caller publishes it.

    Equal calls write equal bytes: no times, host names or random numbers.

    Args:
        path: File to create; must not exist.
        fields: Fields of every sample.
        one_size: Whether all pictures have the same size, so that raw pixels can be one array.

    Raises:
        OutputError: The file cannot be created.
        MissingDependency: The format's library is not installed.
    """

    def __init__(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> None: ...

    def add_batch(self, samples: Sequence[Sample]) -> None:
        """Append one batch, which may be empty.

        Raises:
            OutputError: The file system or the format's library reported an error.
        """

    def close(self) -> ShardLayout:
        """Finish the file, synced to disk.

        Raises:
            OutputError: As above; a full disk may be reported only here.
        """

    def abort(self) -> None:
        """Close the file without finishing it; never raises. The caller deletes the file."""


class Format(Protocol):
    """The names of a format's module.

    Attributes:
        EXTENSION: Extension of the shards, lower case, without the dot.
        EXTRA: Import name of the library that writing needs beside the base install; "" if none.
        WEBDATASET: Whether shards are tar files exactly as `packer.formats.tar` lays them out.
            Their packs get index files for DALI, wids and timm and a dataset card.
        READING: Section of the pack's README.md on reading a shard without packer. `$shard` and
            `$split` stand for the file name of a shard and its split; "" for no section.
    """

    EXTENSION: str
    EXTRA: str
    WEBDATASET: bool
    READING: str

    def Writer(self, path: Path, fields: Sequence[Field], *, one_size: bool) -> ShardWriter:  # noqa: N802
        """Create a shard: a class with the methods of `ShardWriter`."""


PROTOCOL = Format
_NOTHING: Mapping[str, str] = {}


def load_format(name: str, made_with: Mapping[str, str] = _NOTHING) -> Format:
    """Load the format with a name.

    Args:
        name: Name of the format.
        made_with: The `libraries` of the pack in question, see `packer.registry.load`.

    Raises:
        UsageError: No such format, with a suggestion; or a plug-in that cannot be loaded.
        MissingDependency: The pack was made with a plug-in that is not installed.
    """
    return cast(Format, registry.load("formats", name, made_with))


def require(name: str) -> None:
    """Check that a format can be written here, before any work is done.

    Raises:
        UsageError: No such format, or a plug-in that cannot be loaded.
        MissingDependency: Its library is not installed.
    """
    library = load_format(name).EXTRA
    if library and importlib.util.find_spec(library) is None:
        raise missing_library(library)


def missing_library(name: str) -> MissingDependency:
    """The error for a format whose library is not installed."""
    return MissingDependency(
        f"this format needs {name}, which is not installed", install_line(name)
    )
