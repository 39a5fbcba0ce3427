"""The command line: one file a verb; click is used only here.

Each module `packer.cli.<verb>` has a click command named `command`. It is imported when its verb is
called, so `packer --help` stays quick.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `packer` command."""
    from packer.cli._group import run

    sys.exit(run(sys.argv[1:]))
