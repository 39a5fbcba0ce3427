"""OUT/.packer: the files of an unfinished conversion, from which another run continues.

`plan.json` holds the agreement, so that no run can mix another plan into it. `parts.json` holds the
number of parts, if the work is divided. `<stem>.json` is the state of one finished shard: its
record, its ledger lines and the stamps of its source files.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packer.errors import OutputError, UsageError
from packer.files.fsio import (
    output_errors,
    publish_new,
    publish_over,
    remove_if_there,
    require_own_folder,
)
from packer.files.naming import temps_in
from packer.files.regular import read_json, reason
from packer.pack.columns import ShardRecord
from packer.packing.planning.agreement import Agreement, agreement_from_json
from packer.packing.planning.form import check_parts, check_state
from packer.packing.shards.shard import WORK_FOLDER
from packer.types import Skip

PLAN_NAME = "plan.json"
PARTS_NAME = "parts.json"
#: Settings of an unfinished pack of `packer.writer.packwriter`; such a pack has no plan.
WRITER_NAME = "writer.json"


@dataclass(frozen=True)
class ShardState:
    """State of one finished shard, kept until the pack is complete.

    Attributes:
        record: Name, size and digests of the shard file.
        skips: Ledger lines of its skipped pictures.
        notes: Number of pictures by note, see `types.Encoded`.
        stamps: Digest of its source files' sizes and times when it was made.
    """

    record: ShardRecord
    skips: tuple[Skip, ...]
    notes: Mapping[str, int]
    stamps: str


def write_shard_state(out: Path, stem: str, state: ShardState) -> None:
    """Publish one shard's state; it becomes valid with the shard file.

    Raises:
        OutputError: The file system refused.
    """
    value = {
        "record": dataclasses.asdict(state.record),
        "skips": [skip_to_json(skip) for skip in state.skips],
        "notes": dict(sorted(state.notes.items())),
        "stamps": state.stamps,
    }
    folder = out / WORK_FOLDER
    publish_over(folder, folder / f"{stem}.json", json.dumps(value).encode())


def read_shard_state(out: Path, stem: str) -> ShardState:
    """Read one shard's state.

    Raises:
        OutputError: It is missing or unreadable.
    """
    path = out / WORK_FOLDER / f"{stem}.json"
    try:
        value = read_json(path)
        check_state(value, stem)
        record = value["record"]
        record["fingerprint"] = tuple(record["fingerprint"])
        skips = tuple(skip_from_json(skip) for skip in value["skips"])
        return ShardState(ShardRecord(**record), skips, value["notes"], value["stamps"])
    except (OSError, ValueError, TypeError) as error:
        raise OutputError(
            f"{path}: the state of a finished shard is missing or damaged: {reason(error)}",
            f"remove {out / stem}.* and run the same command again",
        ) from error


def agree_on_plan(out: Path, ours: Agreement) -> Agreement:
    """Create plan.json, or check that the existing one is the same plan.

    Returns:
        The content of plan.json.

    Raises:
        UsageError: plan.json holds another plan; the message names the difference.
        OutputError: The file system refused.
    """
    path = out / WORK_FOLDER / PLAN_NAME
    if not path.exists():
        data = (json.dumps(ours.to_json(), indent=1) + "\n").encode()
        # A concurrent run may be faster: its bytes are then used, like an earlier run's.
        publish_new(path.parent, path, data)
    theirs = read_plan(out)
    difference = describe_difference(_compared(theirs), _compared(ours))
    if difference:
        raise UsageError(
            f"{out}: holds an unfinished pack with {difference}",
            "repeat that command, use another --out, or start again with --force",
        )
    return theirs


def read_plan(out: Path) -> Agreement:
    """Read plan.json.

    Raises:
        FileNotFoundError: plan.json does not exist.
        UsageError: Another version of packer wrote it.
        OutputError: It is unreadable.
    """
    path = out / WORK_FOLDER / PLAN_NAME
    try:
        return agreement_from_json(read_json(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise OutputError(
            f"{path}: the plan of an unfinished pack is damaged: {reason(error)}",
            "start again with --force",
        ) from error


def agree_on_parts(out: Path, parts: int) -> None:
    """Create parts.json, or check that the existing one has the same number of parts.

    Raises:
        UsageError: parts.json holds another number.
        OutputError: The file system refused.
    """
    path = out / WORK_FOLDER / PARTS_NAME
    if not path.exists():
        publish_new(path.parent, path, json.dumps({"parts": parts}).encode())
    there = read_parts(out)
    if there != parts:
        raise UsageError(
            f"{out}: is being made in {there} parts, so there is no part of {parts}",
            f"give --part K/{there}, or no --part to make all that is missing",
        )


def read_parts(out: Path) -> int | None:
    """Number of parts into which the work is divided; None if it is not divided.

    Raises:
        OutputError: parts.json is unreadable.
    """
    path = out / WORK_FOLDER / PARTS_NAME
    try:
        value = read_json(path)
        check_parts(value)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: is damaged: {reason(error)}", f"remove {path}") from error
    return int(value["parts"])


def _compared(agreement: Agreement) -> dict[str, Any]:
    value = agreement.to_json()
    del value["ignored"]  # another ignored file does not change the pack
    return value


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
    if name == "source listing":  # digests, of which one cannot see why they differ
        return "another source listing (files were added, removed or changed)"
    return f"{name.replace('_', ' ')} {_short(theirs)} instead of {_short(ours)}"


def skip_to_json(skip: Skip) -> dict[str, Any]:
    """A line of the ledger: path as text, and its bytes in base64 if they are not UTF-8."""
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
    """Parse a line made by `skip_to_json`."""
    if "path_base64" in value:
        path = base64.b64decode(value["path_base64"])
    else:
        path = value["path"].encode()
    return Skip(value["slot"], path, value["reason"], value["detail"])


def remove_work_folder(out: Path, keep: Sequence[str] = ()) -> None:
    """Remove temporary files, packer's files in OUT/.packer, and that folder if it is then empty.

    Args:
        out: The pack's folder.
        keep: Names to leave alone.
    """
    folder = out / WORK_FOLDER
    require_own_folder(folder)
    with output_errors(folder):
        # Remove the plan last, because a run that finds it continues, and lock files after it: a
        # run that is killed in between must not leave a folder without a lock.
        # Temporary files lie beside the shards only if a run was killed while it published a file
        # on a file system without hard links from one folder into another.
        for temp in temps_in(out):
            remove_if_there(temp)
        for entry in sorted(folder.iterdir(), key=_last_needed):
            ours = entry.suffix in (".json", ".tmp") or entry.name.startswith("lock-")
            if ours and entry.name not in keep:
                remove_if_there(entry)
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            try:
                folder.rmdir()
            except OSError as error:
                # The files left are foreign, or of a run that starts: that run finds the pack
                # complete and removes them.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def _last_needed(path: Path) -> tuple[bool, bool, str]:
    return path.name.startswith("lock-"), path.name == PLAN_NAME, path.name


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
