"""Read and write the manifest, which describes a pack.

It is written last, so its presence means that the pack is whole. Its first line has the SHA-256 of
all bytes that follow, so a damaged or edited manifest is refused before its values are used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packer.errors import DamageError, SourceError
from packer.files.regular import JSON_BYTES, NotRegular, read_regular
from packer.pack.columns import ShardRecord, index_name
from packer.pack.manifest_form import check_form
from packer.types import Field

NAME = "manifest.json"
LEDGER_NAME = "skipped.jsonl"
FORMAT = "packer"
VERSION = 1
#: The first line, with the SHA-256 of all bytes behind it, in lower-case hex.
_FIRST_LINE = '{\n "sha256": "%s",\n'
_HINT = "copy it again, or convert again with --force or into another --out"


@dataclass(frozen=True)
class FileRecord:
    """A file of a pack that is neither a shard nor the index of a split.

    Attributes:
        size: Size in bytes.
        sha256: Hex digest of the whole file.
    """

    size: int
    sha256: str


@dataclass(frozen=True)
class SplitRecord:
    """One split of a pack.

    Attributes:
        samples: Number of packed samples.
        batches: Number of on-disk batches, including empty ones.
        index: File name of the split's index.
        index_bytes: Its size.
        index_sha256: Its hex digest; "" while the index is still to be written.
        shards: The shards in order.
    """

    samples: int
    batches: int
    index: str
    index_bytes: int
    index_sha256: str
    shards: tuple[ShardRecord, ...]

    @classmethod
    def of_shards(cls, name: str, shards: Sequence[ShardRecord]) -> SplitRecord:
        """Return the split `name` with these shards; its index is still to be written."""
        return cls(
            samples=sum(shard.samples for shard in shards),
            batches=sum(shard.batches for shard in shards),
            index=index_name(name),
            index_bytes=0,
            index_sha256="",
            shards=tuple(shards),
        )


@dataclass(frozen=True)
class Manifest:
    """A pack as its manifest describes it.

    Attributes:
        name: Name of the data set (recipe or folder name); has no effect.
        format: Format of the shards: tar, lmdb or hdf5.
        batch_size: Slots in a batch.
        fields: Fields of every sample.
        classes: Class folder names; a class's index is its place here.
        display_names: Class names for people, in the same order.
        splits: By name, in order.
        counts: planned = packed + skipped; ignored, by reason; notes: pictures that were turned,
            taken over as they are, and so on, by note.
        options: Options that determine the pack's content, by name.
        libraries: Versions of the libraries that made the pictures, by name.
        listing_sha256: Hex digest of the source's sorted (path, size) list, see `listing_digest`;
            empty if the pack was not made from one.
        identity: Hex digest of what was packed: the indexes of its splits carry it too, so that the
            index of another pack is refused. An excerpt has the identity of the whole pack.
        files: All other files of the pack, by name: indexes of single shards, ledger, card,
            companions.
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
    identity: str = ""
    files: Mapping[str, FileRecord] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the bytes of the manifest file: JSON, with names that are not UTF-8 escaped."""
        return seal({"packer": FORMAT, "version": VERSION, **dataclasses.asdict(self)})

    @property
    def repair(self) -> str:
        """Return a hint for a missing or damaged file."""
        if self.counts.get("excerpt_of"):
            return "copy it again, or stage it again"
        if self.listing_sha256:
            return "copy it again, or remove it: the same packer convert makes what is missing"
        return "copy it again, or write the pack anew"

    def all_files(self) -> dict[str, FileRecord]:
        """Return every file of the pack but the manifest, by name: shards first, in order."""
        found: dict[str, FileRecord] = {}
        for split in self.splits.values():
            found |= {shard.name: FileRecord(shard.size, shard.sha256) for shard in split.shards}
        for split in self.splits.values():
            found[split.index] = FileRecord(split.index_bytes, split.index_sha256)
        return found | dict(self.files)


def seal(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest file: JSON whose first key is the SHA-256 of the rest."""
    rest = (json.dumps(value, indent=1).removeprefix("{\n") + "\n").encode()
    return (_FIRST_LINE % hashlib.sha256(rest).hexdigest()).encode() + rest


def read_manifest(pack: Path) -> Manifest:
    """Read the manifest of the pack in folder `pack`.

    Raises:
        SourceError: There is no pack, or an unfinished one.
        DamageError: The manifest is damaged, was edited, or is of another version.
    """
    return parse_manifest(read_manifest_bytes(pack), pack / NAME)


def read_manifest_bytes(pack: Path) -> bytes:
    """Read the manifest's file.

    Raises:
        SourceError: There is no pack, or an unfinished one.
        DamageError: It is a pipe, a device or a folder.
    """
    path = pack / NAME
    try:
        return _read_anew(path)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_pack(pack) from None
    except NotRegular as error:
        raise DamageError(f"{path}: {error.strerror}", _HINT) from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from error


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Parse the bytes of a manifest file.

    Args:
        data: The bytes.
        path: The file, for messages.

    Raises:
        DamageError: The manifest is damaged, was edited, or is of another version.
    """
    try:
        value = json.loads(data)
        if value.pop("packer") != FORMAT:
            raise ValueError("not written by packer")
        _check_digest(data, value, path)
        version = value.pop("version")
        if version != VERSION:
            raise DamageError(
                f"{path}: is of version {version!r:.50}, this packer reads version {VERSION}",
                "pip install --upgrade packer-shards",
            )
        check_form(value, LEDGER_NAME, NAME)
        return _from_json(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise DamageError(f"{path}: not a readable manifest: {what}", _HINT) from error


def _check_digest(data: bytes, value: Mapping[str, Any], path: Path) -> None:
    if "sha256" not in value:
        raise DamageError(
            f"{path}: has no digest of itself, so it was damaged, or an earlier development version"
            " of packer made it",
            "convert again, with --force or into another --out",
        )
    first = len(_FIRST_LINE % ("0" * 64))
    stated = (_FIRST_LINE % hashlib.sha256(data[first:]).hexdigest()).encode()
    if data[:first] != stated:
        raise DamageError(
            f"{path}: its SHA-256 is not the one that it states, so it was damaged or edited", _HINT
        )


def _from_json(value: dict[str, Any]) -> Manifest:
    value = _known(Manifest, value)
    value["fields"] = tuple(Field(**_known(Field, entry)) for entry in value["fields"])
    value["splits"] = {name: _split(entry) for name, entry in value["splits"].items()}
    value["files"] = {
        name: FileRecord(**_known(FileRecord, entry)) for name, entry in value["files"].items()
    }
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
    """Return the value without keys of later versions, which readers ignore."""
    names = {entry.name for entry in dataclasses.fields(kind)}
    return {name: entry for name, entry in value.items() if name in names}


def _read_anew(path: Path) -> bytes:
    """Read a file that another machine may just have made, in a folder that it made.

    A client of a network file system caches for 30 s that a name does not exist; listing the folder
    refreshes that.
    """
    try:
        return read_regular(path, JSON_BYTES, follow=True)
    except FileNotFoundError:
        for folder in (path.parent.parent, path.parent):
            # A folder may be readable without being listable: then nothing is refreshed.
            with contextlib.suppress(OSError):
                os.listdir(folder)  # noqa: PTH208 - the listing counts, not what it says
        return read_regular(path, JSON_BYTES, follow=True)


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
