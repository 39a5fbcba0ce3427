"""What `convert` and `merge` say of the pack they made."""

from __future__ import annotations

import itertools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from packer.cli._reporter import BarReporter, StderrReporter
from packer.files.regular import open_regular, parse_json

if TYPE_CHECKING:
    from packer.pack.manifest import Manifest

#: Skipped pictures that are listed.
_SHOWN = 5
#: Bytes of a line of the ledger, at most: a path has 4,096, each of which may take six.
_LINE_BYTES = 64 << 10


class Result(Protocol):
    """What both have in common."""

    @property
    def out(self) -> Path:
        """The pack's folder."""

    @property
    def manifest(self) -> Manifest | None:
        """Of a complete pack."""

    @property
    def was_complete(self) -> bool:
        """Nothing was written."""

    @property
    def restored(self) -> tuple[str, ...]:
        """Files that were made again."""


def as_json(result: Result) -> dict[str, Any]:
    """For --json, without the schema's name."""
    from packer.types import display_text

    value: dict[str, Any] = {
        "out": display_text(os.fspath(result.out)),
        "complete": result.manifest is not None,
        "was_complete": result.was_complete,
        "restored": list(result.restored),
    }
    if result.manifest is not None:
        value["classes"] = len(result.manifest.classes)
        value["counts"] = dict(result.manifest.counts)
        value["splits"] = {
            name: {"samples": split.samples, "shards": len(split.shards)}
            for name, split in result.manifest.splits.items()
        }
    return value


def summarise(result: Result, reporter: StderrReporter) -> None:
    """Lines on a complete pack."""
    from packer.pack.manifest import LEDGER_NAME

    manifest = result.manifest
    assert manifest is not None, "of complete packs only"
    if result.was_complete:
        reporter.note("the pack is there already and complete")
    if result.restored:
        reporter.note(f"the pack is whole again, made again: {', '.join(result.restored)}")
    counts = manifest.counts
    for name, split in manifest.splits.items():
        size = sum(shard.size for shard in split.shards)
        reporter.note(f"{name}: {split.samples} images, {len(split.shards)} shards, {size:,} bytes")
    reporter.note(f"{len(manifest.classes)} classes")
    reporter.note(f"{counts['packed']} packed of {counts['planned']} planned")
    for title in ("notes", "ignored"):
        if counts.get(title):
            found = ", ".join(f"{number} {name}" for name, number in counts[title].items())
            reporter.note(f"{title}: {found}")
    if damaged := counts.get("notes", {}).get("damaged"):
        reporter.warn(f"{damaged} damaged, stored as asked: packer ls --note damaged {result.out}")
    if counts["skipped"]:
        _list_skipped(result.out / LEDGER_NAME, counts["skipped"], reporter)


def name_next_steps(result: Result, reporter: StderrReporter) -> None:
    """Lines to copy, for somebody who sits at a terminal: logs and programs need none."""
    if not isinstance(reporter, BarReporter) or result.manifest is None:
        return
    out, split = os.fspath(result.out), next(iter(result.manifest.splits), "train")
    reporter.note(f"look at it: packer info {shlex.quote(out)}")
    reporter.note(
        f"read it: from packer.reader import PackedDataset; PackedDataset({out!r}, {split!r})"
    )


def _list_skipped(ledger: Path, skipped: int, reporter: StderrReporter) -> None:
    pictures = "picture" if skipped == 1 else "pictures"
    reporter.warn(f"{skipped} {pictures} skipped, listed in {ledger}")
    try:
        for skip in _first_skips(ledger):
            reporter.note(f"skipped {skip['path']}: {skip['reason']}: {skip['detail']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        reporter.warn(f"{ledger}: cannot be read: {error}")
        return
    if skipped > _SHOWN:
        reporter.note(f"… and {skipped - _SHOWN} more")


def _first_skips(ledger: Path) -> list[Any]:
    with open_regular(ledger) as file:
        lines = itertools.islice(iter(lambda: file.readline(_LINE_BYTES), b""), _SHOWN)
        return [parse_json(line) for line in lines]
