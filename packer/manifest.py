"""The manifest: what a pack holds. Written last, so its presence means that the pack is whole."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packer.columns import ShardRecord
from packer.errors import DamageError, SourceError
from packer.types import Field

NAME = "manifest.json"
LEDGER_NAME = "skipped.jsonl"
FORMAT = "packer"
VERSION = 1


@dataclass(frozen=True)
class SplitRecord:
    """One split of a pack.

    Attributes:
        samples: Number of packed samples.
        batches: Number of on-disk batches, empty ones too.
        index: File name of the split's index.
        index_bytes: Its size.
        index_sha256: Its hex digest.
        shards: In order.
    """

    samples: int
    batches: int
    index: str
    index_bytes: int
    index_sha256: str
    shards: tuple[ShardRecord, ...]


@dataclass(frozen=True)
class Manifest:
    """A pack as its manifest describes it.

    Attributes:
        name: Name of the data set (recipe or folder name); decides nothing.
        format: tar, lmdb, hdf5: the shards' format.
        batch_size: Slots in a batch.
        fields: Fields of every sample.
        classes: Class folder names; a class's index is its place here.
        display_names: Class names for people, in the same order.
        splits: By name, in order.
        counts: planned = packed + skipped; ignored, by reason; notes: pictures that were turned,
            taken over as they are, and so on, by note.
        options: Those that decide what is in the pack, by name.
        libraries: Versions of the libraries that made the pictures, by name.
        listing_sha256: Hex digest of the source's sorted (path, size) list; empty if the pack was
            not made from one.
    """

    name: str
    format: str
    batch_size: int
    fields: tuple[Field, ...]
    classes: tuple[str, ...]
    display_names: tuple[str, ...]
    splits: Mapping[str, SplitRecord]
    counts: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    listing_sha256: str = ""

    def to_json(self) -> bytes:
        """The manifest file's bytes: JSON, names that are no UTF-8 escaped."""
        value = {"packer": FORMAT, "version": VERSION, **dataclasses.asdict(self)}
        return (json.dumps(value, indent=1) + "\n").encode()


def read_manifest(pack: Path) -> Manifest:
    """Read the manifest of the pack in folder `pack`.

    Raises:
        SourceError: No pack there, or not a whole one.
        DamageError: The manifest is damaged or of a later version.
    """
    path = pack / NAME
    try:
        data = _read_anew(path)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_pack(pack) from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        value = json.loads(data)
        if value.pop("packer") != FORMAT:
            raise ValueError("not written by packer")
        version = value.pop("version")
        if version != VERSION:
            raise DamageError(
                f"{path}: is of version {version}, this packer reads version {VERSION}",
                "pip install --upgrade packer-shards",
            )
        return _from_json(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamageError(f"{path}: not a readable manifest: {error}") from error


def _from_json(value: dict[str, Any]) -> Manifest:
    value = _known(Manifest, value)
    value["fields"] = tuple(Field(**_known(Field, entry)) for entry in value["fields"])
    value["splits"] = {name: _split(entry) for name, entry in value["splits"].items()}
    for name in ("classes", "display_names"):
        value[name] = tuple(value[name])
    return Manifest(**value)


def _split(value: dict[str, Any]) -> SplitRecord:
    shards = tuple(
        ShardRecord(**{**_known(ShardRecord, shard), "fingerprint": tuple(shard["fingerprint"])})
        for shard in value["shards"]
    )
    return SplitRecord(**{**_known(SplitRecord, value), "shards": shards})


def _known(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys of later versions, which readers ignore."""
    names = {entry.name for entry in dataclasses.fields(kind)}
    return {name: entry for name, entry in value.items() if name in names}


def _read_anew(path: Path) -> bytes:
    """Read a file that another machine may just have made, in a folder that it made.

    A client of a network file system remembers for 30 seconds that a name was not there; listing
    the folder shows it what is new.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        for folder in (path.parent.parent, path.parent):
            # What cannot be listed (passing through is enough for reading) is as it was.
            with contextlib.suppress(OSError):
                os.listdir(folder)  # noqa: PTH208 - the listing counts, not what it says
        return path.read_bytes()


def _no_pack(pack: Path) -> SourceError:
    if (pack / ".packer").is_dir():
        return SourceError(
            f"{pack}: an unfinished pack",
            "run the same packer convert again (packer merge if it is made in parts), or the same "
            "PackWriter with resume=True",
        )
    if not pack.exists():
        return SourceError(f"{pack}: no such folder")
    return SourceError(f"{pack}: not a pack (it has no {NAME})", "packer convert makes one")
