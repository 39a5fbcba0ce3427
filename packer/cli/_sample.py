"""The sample that packer draws: drawn once a user, not once a command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packer.reporting import Reporter
    from packer.sources import Source


def draw_once(source: Source, environ: Mapping[str, str], reporter: Reporter) -> None:
    """Make a drawn source ready, with its pictures in the user's cache; others are ready."""
    from packer.sources.drawn import DrawnSource

    if isinstance(source, DrawnSource):
        source.prepare(cache_folder(environ), reporter)


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Where packer caches, by the XDG Base Directory Specification; None if there is no home."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification says: ignore it
        base = Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111 - never raises
    return base / "packer" if base.is_absolute() else None
