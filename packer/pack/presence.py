"""Check that files of a pack exist with their sizes, by one listing of its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def differing_sizes(folder: Path, expected: Mapping[str, int]) -> dict[str, str]:
    """Return the differences of files from their expected sizes, by name; empty if there are none.

    Args:
        folder: The pack.
        expected: Size of each file in bytes, by name.

    Raises:
        OSError: The folder cannot be listed.
    """
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            # A dangling link counts as missing; checked first, as its stat would fail.
            if entry.name in expected and entry.is_file():
                found[entry.name] = entry.stat().st_size
    return {
        name: _difference(found.get(name), size)
        for name, size in expected.items()
        if found.get(name) != size
    }


def _difference(found: int | None, expected: int) -> str:
    if found is None:
        return "missing"
    what = "cut short" if found < expected else "too long"
    return f"{what} ({found} of {expected} bytes)"
