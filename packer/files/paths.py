"""Paths as users give them."""

from __future__ import annotations

import os
from pathlib import Path

from packer.errors import UsageError


def given_path(value: str | os.PathLike[str], what: str) -> Path:
    """The path that a user gave.

    An empty one is what is left of a variable that is not set; pathlib makes the working directory
    of it.

    Args:
        value: The path.
        what: What it is for, in an error: the argument's name.

    Raises:
        UsageError: It is empty.
    """
    if not os.fspath(value):
        raise UsageError(f"{what} is an empty path", "'.' is the working directory")
    return Path(value)
