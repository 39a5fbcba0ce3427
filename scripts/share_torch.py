"""Let another environment of the same Python use the torch that this Python has.

    CALLERS_PYTHON scripts/share_torch.py FOLDER

Fills a new folder with links to torch and the CUDA libraries that were installed with it. With
that folder on its path the other environment sees these and nothing else of the caller's, above
all not the caller's Pillow. There is no list of files (RECORD) beside the links, so no pip can
ever remove the caller's torch through them. Prints the version of torch.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

#: Distributions that torch loads at run time from beside its own folder.
TORCH = ("torch", "triton", "pytorch-triton")
CUDA_PREFIXES = ("nvidia-", "cuda-")


def main(target: Path) -> int:
    """Link torch and its libraries into `target`; return 0 if torch was found."""
    target.mkdir(exist_ok=True)
    version = ""
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"].lower().replace("_", "-")
        if name in TORCH or name.startswith(CUDA_PREFIXES):
            share(distribution, target)
        if name == "torch":
            version = distribution.version
    if version:
        print(version)
    return 0 if version else 1


def share(distribution: metadata.Distribution, target: Path) -> None:
    """Link one distribution's top-level files and folders, and copy its metadata."""
    if distribution.files is None:  # it is in such a folder itself
        tops = {path.name for path in Path(str(distribution.locate_file(""))).iterdir()}
    else:
        tops = {path.parts[0] for path in distribution.files}
    for top in sorted(tops - {"..", "__pycache__"}):
        origin, link = Path(str(distribution.locate_file(top))).resolve(), target / top
        if top.endswith(".dist-info"):
            link.mkdir(exist_ok=True)
            (link / "METADATA").write_bytes((origin / "METADATA").read_bytes())
            (link / "INSTALLER").write_text("packer scripts/setup\n")
        elif not (link.exists() or link.is_symlink()):
            link.symlink_to(origin)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
