"""OUT/.packer: everything a conversion keeps while its pack is unfinished, and goes on from.

`plan.json` says what is being made, so that no run can mix another plan into it. `<stem>.json` is
the state of one finished shard: its record, the ledger lines and the source's sizes and times.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packer.columns import ShardRecord
from packer.errors import OutputError, UsageError
from packer.fsio import publish_bytes
from packer.packing.shard import WORK_FOLDER
from packer.types import Skip

PLAN_NAME = "plan.json"


@dataclass(frozen=True)
class ShardState:
    """What is kept of one finished shard until the pack is complete.

    Attributes:
        record: The shard as a file.
        skips: Its lines of the ledger.
        notes: Number of pictures by note, see `types.Encoded`.
        stamps: Digest of its source files' sizes and times when it was made.
    """

    record: ShardRecord
    skips: tuple[Skip, ...]
    notes: Mapping[str, int]
    stamps: str


def write_state(out: Path, stem: str, state: ShardState) -> None:
    """Publish one shard's state.

    Raises:
        OutputError: The file system refused, or another state has that name.
    """
    value = {
        "record": dataclasses.asdict(state.record),
        "skips": [skip_to_json(skip) for skip in state.skips],
        "notes": dict(sorted(state.notes.items())),
        "stamps": state.stamps,
    }
    folder = out / WORK_FOLDER
    publish_bytes(folder, folder / f"{stem}.json", json.dumps(value).encode())


def read_state(out: Path, stem: str) -> ShardState:
    """Read one shard's state.

    Raises:
        OutputError: It is missing or unreadable.
    """
    path = out / WORK_FOLDER / f"{stem}.json"
    try:
        value = json.loads(path.read_bytes())
        record = value["record"]
        record["fingerprint"] = tuple(record["fingerprint"])
        skips = tuple(skip_from_json(skip) for skip in value["skips"])
        return ShardState(ShardRecord(**record), skips, value["notes"], value["stamps"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{path}: the state of a finished shard is missing or damaged: {error}",
            f"remove {out / stem}.* and run the same command again",
        ) from error


def agree_on_plan(out: Path, plan: Mapping[str, Any]) -> None:
    """Be the first to write plan.json, or hold the same plan as who was.

    Args:
        out: The pack's folder.
        plan: JSON values: everything that decides what is in the pack.

    Raises:
        UsageError: Another plan is there; the message names the difference.
        OutputError: The file system refused.
    """
    path = out / WORK_FOLDER / PLAN_NAME
    data = (json.dumps(plan, indent=1, sort_keys=True) + "\n").encode()
    try:
        publish_bytes(path.parent, path, data)
    except OutputError:
        if not path.exists() or path.read_bytes() == data:
            raise
        difference = describe_difference(json.loads(path.read_bytes()), json.loads(data))
        raise UsageError(
            f"{out}: holds an unfinished pack with {difference}",
            "repeat that command, use another --out, or start anew with --force",
        ) from None


def describe_difference(theirs: Any, ours: Any, name: str = "") -> str:
    """The first difference of two JSON values, as "NAME A instead of B"; "" if they are equal."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in sorted({*theirs, *ours}):
            found = describe_difference(theirs.get(key), ours.get(key), key)
            if found:
                return found
        return ""
    if theirs == ours:
        return ""
    return f"{name.replace('_', ' ')} {_short(theirs)} instead of {_short(ours)}"


def skip_to_json(skip: Skip) -> dict[str, Any]:
    """A line of the ledger: path as text, its bytes in base64 besides if they are no UTF-8."""
    value: dict[str, Any] = {
        "slot": skip.slot,
        "path": skip.path.decode(errors="replace"),
        "reason": skip.reason,
        "detail": skip.detail,
    }
    if value["path"].encode() != skip.path:
        value["path_base64"] = base64.b64encode(skip.path).decode()
    return value


def skip_from_json(value: Mapping[str, Any]) -> Skip:
    """The other way round."""
    if "path_base64" in value:
        path = base64.b64decode(value["path_base64"])
    else:
        path = value["path"].encode()
    return Skip(value["slot"], path, value["reason"], value["detail"])


def remove_work_folder(out: Path, keep: Sequence[str] = ()) -> None:
    """Remove what packer made in OUT/.packer, and the folder if nothing else is in it.

    Args:
        out: The pack's folder.
        keep: Names to leave alone.
    """
    folder = out / WORK_FOLDER
    for entry in sorted(folder.iterdir()):
        ours = entry.suffix in (".json", ".tmp") or entry.name.startswith("lock-")
        if ours and entry.name not in keep:
            entry.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
