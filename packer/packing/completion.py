"""From finished shards to a pack: everything beside the shards, the manifest last.

The files follow from the shards' indexes, the ledger and the manifest's first draft alone, so the
same shards always get the same files. Everything that makes a pack, or makes parts of one again,
uses this module.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from packer.errors import DamageError, PackerError
from packer.files.fsio import sha256_file
from packer.pack.columns import encode_split_index, index_name
from packer.pack.index_form import open_shard_index
from packer.pack.manifest import LEDGER_NAME, NAME, FileRecord, Manifest, SplitRecord
from packer.packing.card import NAME as CARD_NAME
from packer.packing.card import card
from packer.packing.companions import companion_files


def write_beside(
    out: Path, draft: Manifest, ledger: bytes, write: Callable[[str, bytes], None]
) -> Manifest:
    """Make the files of a pack beside its shards and their indexes.

    Args:
        out: The pack's folder; the shards' indexes are there.
        draft: The pack. Splits without `index_sha256` get an index; a pack without `identity` gets
            one; `files` is made again.
        ledger: Content of the ledger.
        write: Writes a file of this name and content to `out`.

    Returns:
        The manifest, which was written last.

    Raises:
        DamageError: The index of a shard is missing or damaged.
    """
    names = [index_name(shard.name) for split in draft.splits.values() for shard in split.shards]
    files = {name: _record_file(out / name) for name in names}
    identity = draft.identity or _identity(draft, files)
    manifest = dataclasses.replace(draft, identity=identity)

    def put(name: str, data: bytes) -> FileRecord:
        write(name, data)
        return FileRecord(len(data), hashlib.sha256(data).hexdigest())

    splits = dict(manifest.splits)
    for name, split in manifest.splits.items():
        if not split.index_sha256:
            record = put(split.index, _split_index(out, manifest, name))
            splits[name] = dataclasses.replace(
                split, index_bytes=record.size, index_sha256=record.sha256
            )
    manifest = dataclasses.replace(manifest, splits=splits)
    for name, data in companion_files(out, manifest):
        files[name] = put(name, data)
    files[LEDGER_NAME] = put(LEDGER_NAME, ledger)
    files[CARD_NAME] = put(CARD_NAME, card(manifest))
    manifest = dataclasses.replace(manifest, files=files)
    put(NAME, manifest.to_json())
    return manifest


def as_draft(manifest: Manifest) -> Manifest:
    """A finished pack's manifest as `write_beside` needs it to make all files again."""
    splits = {
        name: SplitRecord.of_shards(name, split.shards) for name, split in manifest.splits.items()
    }
    return dataclasses.replace(manifest, splits=splits, files={})


def _split_index(out: Path, manifest: Manifest, split: str) -> bytes:
    shards, classes = manifest.splits[split].shards, len(manifest.classes)
    indexes = [open_shard_index(out, shard, manifest.fields, classes) for shard in shards]
    return encode_split_index(split, manifest.fields, shards, indexes, manifest.identity)


def _identity(draft: Manifest, indexes: dict[str, FileRecord]) -> str:
    """Digest of the data that a reader gets: fields, classes, shards and, as paths are in no shard,
    the shards' indexes. Names of data sets, counts of ignored files and the like do not count.
    """
    manifest = dataclasses.asdict(draft)
    value = {name: manifest[name] for name in ("format", "fields", "classes", "splits")}
    value["indexes"] = {name: record.sha256 for name, record in indexes.items()}
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _record_file(path: Path) -> FileRecord:
    try:
        return FileRecord(path.stat().st_size, sha256_file(path))
    except FileNotFoundError:
        raise DamageError(f"{path}: is missing") from None
    except OSError as error:
        raise PackerError(f"{path}: cannot be read: {error.strerror}") from error
