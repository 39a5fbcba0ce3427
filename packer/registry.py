"""From a name to the module of that name: codecs, formats and sources are one file each.

A new one is a new file; there is no table to edit. Modules whose name starts with an underscore
are not offered.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

from packer.errors import UsageError, suggestion


@cache
def names(room: str) -> tuple[str, ...]:
    """Names in a room ("codecs", "formats", "sources", "cli"), sorted; imports none of them."""
    folder = Path(__file__).parent / room
    found = (module.name for module in pkgutil.iter_modules([str(folder)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def load(room: str, name: str) -> ModuleType:
    """Import the module `name` of a room.

    Raises:
        UsageError: No such name; the message suggests one.
    """
    if name not in names(room):
        raise UsageError(
            f"unknown {room.removesuffix('s')} {name!r}", suggestion(name, names(room))
        )
    return importlib.import_module(f"packer.{room}.{name}")
