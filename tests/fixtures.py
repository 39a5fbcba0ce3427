"""Types of fixtures that tests of several rooms use."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol


class MakeTree(Protocol):
    """Makes an image folder of JPEGs below the test's folder."""

    def __call__(
        self, name: str = "photos", *, classes: int = 3, each: int = 8, size: int = 64
    ) -> Path: ...


#: Digests of all files below a folder, by relative name.
Digest = Callable[[Path], dict[str, str]]
#: Runs `packer` with these arguments; named arguments are environment variables.
Run = Callable[..., "subprocess.CompletedProcess[str]"]
#: Runs `packer` in this process; returns the exit code and what it wrote to stderr.
Called = Callable[[list[str]], tuple[int, str]]
#: Encodes pixels or a Pillow image: (picture, kind, **Pillow's settings) → the file's bytes.
Save = Callable[..., bytes]
#: Writes files into a folder: (folder, {path: content}).
WriteFiles = Callable[[Path, Mapping[bytes, bytes]], Path]
#: Makes an archive of a folder: (folder, archive).
PackFolder = Callable[[Path, Path], Path]
#: Runs one case with a fault: `meet("tar", call="sync", text="train-000001", nth=1, action=28)`.
Meet = Callable[..., dict[str, Any]]
