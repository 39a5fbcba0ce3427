"""Optional C extensions: packer works without them, but slower."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType


class Extension:
    """A C extension, imported when it is first used.

    Args:
        name: Full name of its module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @functools.cached_property
    def module(self) -> ModuleType | None:
        """The extension; None if it was not built (no compiler, no headers) or does not load."""
        try:
            return importlib.import_module(self._name)
        except ImportError:
            return None

    @property
    def is_built(self) -> bool:
        """Whether the extension was built and loads."""
        return self.module is not None
