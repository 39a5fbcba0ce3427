"""The sample data set, which packer draws: cached, so that it is drawn once for each user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packer.reporting import Reporter
    from packer.sources import Source


def draw_once(source: Source, environ: Mapping[str, str], reporter: Reporter) -> None:
    """Prepare a drawn source, with pictures in the user's cache; other sources need nothing."""
    from packer.sources.drawn import DrawnSource

    if isinstance(source, DrawnSource):
        source.prepare(cache_folder(environ), reporter)


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return packer's cache (XDG Base Directory Specification); None if there is no home."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # to be ignored, by the specification
        base = Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111 - never raises
    return base / "packer" if base.is_absolute() else None
