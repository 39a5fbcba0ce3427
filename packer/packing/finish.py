"""From finished shards to a pack: split indexes, ledger, manifest last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from packer.errors import InUse, OutputError
from packer.files.fsio import list_folder, publish_bytes
from packer.pack.manifest import NAME, Manifest, SplitRecord
from packer.packing.completion import write_beside
from packer.packing.lock import Lock
from packer.packing.planning.agreement import Agreement
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import ShardState, remove_work_folder, skip_to_json
from packer.packing.skips import judge_skips
from packer.types import Skip


def finish_pack(out: Path, draft: Manifest, skips: Sequence[Skip]) -> Manifest:
    """Write what lies beside the shards and, last, the manifest; never reads a shard.

    Args:
        out: The pack's folder; all shards and their indexes have their final names.
        draft: The pack, its splits made by `SplitRecord.of_shards`.
        skips: Lines of the ledger.

    Raises:
        OutputError: The file system refused.
    """
    work = out / WORK_FOLDER

    def write(name: str, data: bytes) -> None:
        publish_bytes(work, out / name, data)

    manifest = write_beside(out, draft, encode_ledger(skips), write)
    remove_work_folder(out)
    return manifest


def encode_ledger(skips: Sequence[Skip]) -> bytes:
    """The content of the ledger: one line for each skipped picture, by slot."""
    lines = [json.dumps(skip_to_json(skip)) + "\n" for skip in sorted(skips, key=_by_slot)]
    return "".join(lines).encode()


def complete_pack(
    out: Path, agreement: Agreement, states: Mapping[str, ShardState], allowed: int
) -> Manifest:
    """Complete a pack whose shards are all there; never reads a shard or the source.

    Args:
        out: The pack's folder.
        agreement: The pack as planned.
        states: States of all shards, by stem.
        allowed: How many samples may be skipped.

    Raises:
        TooManySkipped: More than `allowed` samples were skipped.
        OutputError: The file system refused, or plan and states contradict each other.
    """
    skips = [skip for state in states.values() for skip in state.skips]
    packed = sum(state.record.samples for state in states.values())
    if packed + len(skips) != agreement.planned:
        raise OutputError(
            f"{out}: {packed} packed and {len(skips)} skipped samples are not the"
            f" {agreement.planned} planned ones: the plan or a state is damaged",
            "start again with --force",
        )
    judge_skips(skips, agreement.planned, allowed)
    splits = {}
    for name in agreement.splits:
        records = [states[s.stem].record for s in agreement.shards() if s.split == name]
        splits[name] = SplitRecord.of_shards(name, records)
    notes: Counter[str] = Counter()
    for state in states.values():
        notes.update(state.notes)
    counts = count(agreement.planned, skips, ignored=agreement.ignored, notes=notes)
    return finish_pack(out, agreement.manifest(splits, counts), skips)


def is_complete(out: Path) -> bool:
    """Whether a pack has its manifest, by a listing of its folder.

    Raises:
        OutputError: The folder cannot be listed.
    """
    try:
        return any(entry.name == NAME for entry in list_folder(out))
    except (FileNotFoundError, NotADirectoryError):
        return False


def tidy_complete(out: Path) -> None:
    """Remove the files of a run that was killed between the manifest and its last clean-up."""
    if not (out / WORK_FOLDER).is_dir():
        return
    try:
        with Lock(out / WORK_FOLDER, None):
            remove_work_folder(out)
    except InUse:
        pass  # the run that holds the lock removes the folder itself
    except OutputError:
        if (out / WORK_FOLDER).is_dir():  # else another run has removed it
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
