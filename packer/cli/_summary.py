"""Summary of a finished pack, printed by `convert` and `merge`."""

from __future__ import annotations

import itertools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from packer.cli._reporter import BarReporter, StderrReporter
from packer.files.regular import open_regular, parse_json
from packer.wording import count

if TYPE_CHECKING:
    from packer.pack.manifest import Manifest

#: Number of skipped pictures that are listed.
_SHOWN = 5
#: Longest line of the ledger in bytes: a path has 4,096 bytes, and each may take six.
_LINE_BYTES = 64 << 10


class Result(Protocol):
    """The part that results of both commands have."""

    @property
    def out(self) -> Path:
        """The pack's folder."""

    @property
    def manifest(self) -> Manifest | None:
        """Manifest of a complete pack; None if parts are missing."""

    @property
    def was_complete(self) -> bool:
        """Whether the pack was complete, so that nothing was written."""

    @property
    def restored(self) -> tuple[str, ...]:
        """Names of the restored files."""


def as_json(result: Result) -> dict[str, Any]:
    """Return the object for --json, without the name of its schema."""
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
    """Print lines that describe a complete pack."""
    from packer.pack.manifest import LEDGER_NAME

    manifest = result.manifest
    assert manifest is not None, "the pack is not complete"
    if result.was_complete:
        reporter.note("the pack exists and is complete")
    if result.restored:
        reporter.note(f"the pack is complete again; restored: {', '.join(result.restored)}")
    counts = manifest.counts
    for name, split in manifest.splits.items():
        size = sum(shard.size for shard in split.shards)
        images, shards = count(split.samples, "image"), count(len(split.shards), "shard")
        reporter.note(f"{name}: {images}, {shards}, {count(size, 'byte', ',')}")
    reporter.note(count(len(manifest.classes), "class"))
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
    """Print commands to copy, on a terminal only: logs and programs do not need them."""
    if not isinstance(reporter, BarReporter) or result.manifest is None:
        return
    out, split = os.fspath(result.out), next(iter(result.manifest.splits), "train")
    reporter.note(f"look at it: packer info {shlex.quote(out)}")
    reporter.note(
        f"read it: from packer.reader import PackedDataset; PackedDataset({out!r}, {split!r})"
    )


def _list_skipped(ledger: Path, skipped: int, reporter: StderrReporter) -> None:
    reporter.warn(f"{count(skipped, 'picture')} skipped, listed in {ledger}")
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
