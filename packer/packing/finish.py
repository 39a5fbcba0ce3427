"""From finished shards to a pack: split indexes, ledger, manifest last."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packer.columns import ShardRecord, encode_split_index, index_name
from packer.companions import companion_files
from packer.errors import InUse, OutputError
from packer.fsio import list_folder, publish_bytes
from packer.index import IndexFile
from packer.manifest import LEDGER_NAME, NAME, Manifest, SplitRecord
from packer.packing.agreement import Agreement
from packer.packing.lock import Lock
from packer.packing.shard import WORK_FOLDER
from packer.packing.skips import judge_skips
from packer.packing.state import ShardState, remove_work_folder, skip_to_json
from packer.types import Field, Skip


@dataclass(frozen=True)
class FinishedSplit:
    """A split whose shards all have their final names."""

    name: str
    records: Sequence[ShardRecord]


def finish_split(out: Path, fields: Sequence[Field], split: FinishedSplit) -> SplitRecord:
    """Write one split's index; never reads a shard.

    Raises:
        OutputError: The file system refused.
    """
    indexes = [IndexFile(out / index_name(record.name)) for record in split.records]
    data = encode_split_index(split.name, fields, split.records, indexes)
    name = f"{split.name}.index"
    publish_bytes(out / WORK_FOLDER, out / name, data)
    return SplitRecord(
        samples=sum(record.samples for record in split.records),
        batches=sum(record.batches for record in split.records),
        index=name,
        index_bytes=len(data),
        index_sha256=hashlib.sha256(data).hexdigest(),
        shards=tuple(split.records),
    )


def finish_pack(out: Path, manifest: Manifest, skips: Sequence[Skip]) -> None:
    """Write what lies beside the shards, the ledger and, last, the manifest.

    Raises:
        OutputError: The file system refused.
    """
    work = out / WORK_FOLDER
    for name, data in companion_files(out, manifest):
        publish_bytes(work, out / name, data)
    lines = [json.dumps(skip_to_json(skip)) + "\n" for skip in sorted(skips, key=_by_slot)]
    publish_bytes(work, out / LEDGER_NAME, "".join(lines).encode())
    publish_bytes(work, out / NAME, manifest.to_json())
    remove_work_folder(out)


def complete_pack(
    out: Path, agreement: Agreement, states: Mapping[str, ShardState], allowed: int
) -> Manifest:
    """Complete a pack whose shards are all there; never reads a shard or the source.

    Args:
        out: The pack's folder.
        agreement: What is made.
        states: Of all shards, by stem.
        allowed: How many samples may be skipped.

    Raises:
        TooManySkipped: More were.
        OutputError: The file system refused.
    """
    skips = [skip for state in states.values() for skip in state.skips]
    judge_skips(skips, agreement.planned, allowed)
    splits = {}
    for name in agreement.splits:
        records = [states[s.stem].record for s in agreement.shards() if s.split == name]
        splits[name] = finish_split(out, agreement.fields, FinishedSplit(name, records))
    notes: Counter[str] = Counter()
    for state in states.values():
        notes.update(state.notes)
    counts = count(agreement.planned, skips, ignored=agreement.ignored, notes=notes)
    manifest = agreement.manifest(splits, counts)
    finish_pack(out, manifest, skips)
    return manifest


def is_complete(out: Path) -> bool:
    """Whether a pack has its manifest, by a listing.

    Raises:
        OutputError: The folder cannot be listed.
    """
    try:
        return any(entry.name == NAME for entry in list_folder(out))
    except (FileNotFoundError, NotADirectoryError):
        return False


def tidy_complete(out: Path) -> None:
    """Remove what a run left that was killed between the manifest and its last clean-up."""
    if not (out / WORK_FOLDER).is_dir():
        return
    try:
        with Lock(out / WORK_FOLDER, None):
            remove_work_folder(out)
    except InUse:
        pass  # whoever it is does it
    except OutputError:
        if (out / WORK_FOLDER).is_dir():  # else somebody was faster
            raise


def count(planned: int, skips: Sequence[Skip], **others: Mapping[str, int]) -> dict[str, object]:
    """The manifest's counts: planned = packed + skipped, and others by reason.

    Args:
        planned: Number of slots.
        skips: The ledger.
        **others: Further counts by reason, sorted here.
    """
    counts: dict[str, object] = {
        "planned": planned,
        "packed": planned - len(skips),
        "skipped": len(skips),
    }
    for name, numbers in others.items():
        counts[name] = dict(sorted(numbers.items()))
    return counts


def _by_slot(skip: Skip) -> int:
    return skip.slot
