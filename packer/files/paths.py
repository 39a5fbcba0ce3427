"""Convert paths that users give."""

from __future__ import annotations

import os
from pathlib import Path

from packer.errors import UsageError


def given_path(value: str | os.PathLike[str], what: str) -> Path:
    """Return the path that a user gave.

    An empty path usually comes from a variable that is not set; pathlib would take it as the
    working directory.

    Args:
        value: The path.
        what: Name of the argument, for the error.

    Raises:
        UsageError: It is empty.
    """
    if not os.fspath(value):
        raise UsageError(f"{what} is an empty path", "'.' is the working directory")
    return Path(value)
