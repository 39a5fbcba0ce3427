"""Opens the source that a command names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from packer.cli._environment import path_variable

if TYPE_CHECKING:
    from packer.input import Input
    from packer.reporting import Reporter


def open_source(source: str, reporter: Reporter, src: str | None, null: bool) -> Input:
    """Open a source: a list of paths, a folder, an archive or a recipe."""
    from packer.input import open_input, open_list
    from packer.sources import listed
    from packer.types import display_path

    path = Path(source)
    if not (source == "-" or null or listed.accepts(path)):
        return open_input(source, src=src, data=path_variable("PACKER_DATA"))
    content = sys.stdin.buffer.read() if source == "-" else listed.read_list(path)
    given = open_list(content, top=src, null=null)
    single = given.source.single_folder() if isinstance(given.source, listed.ListedSource) else None
    if single is not None:
        reporter.warn(
            f"all listed files are in {display_path(single)}/, which makes one class;"
            " --src names the folder whose folders are the classes"
        )
    return given
