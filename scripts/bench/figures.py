"""Format figures and describe the machine, for all bench scripts.

Imports only the standard library: some scripts run in a peer's environment.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_once(path: Path) -> None:
    """Bring all files below a folder into the page cache."""
    for file in path.rglob("*"):
        if file.is_file():
            file.read_bytes()


def cell(values: Sequence[float], digits: int) -> str:
    """Return a table cell: "median (lowest to highest)" of all rounds, "–" if there are none."""
    if not values:
        return "–"
    return (
        f"{statistics.median(values):.{digits}f}"
        f" ({min(values):.{digits}f} to {max(values):.{digits}f})"
    )


def machine() -> dict[str, Any]:
    """Describe the machine as JSON values."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load": os.getloadavg(),
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:  # not Linux
        found = None
    return found[1] if found else platform.processor() or platform.machine()
