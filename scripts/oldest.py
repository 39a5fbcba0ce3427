"""Print the oldest versions that setup.cfg allows, as constraints for pip.

    scripts/oldest.py SETUP.CFG

Prints the oldest series of each library that reading, converting and dask need: `numpy >= 1.24`
becomes `numpy==1.24.*`, of which pip installs the last release. PyTorch is left out: its oldest
version has no build for every Python, and a training environment has its own.
"""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: Extras whose oldest versions are tested: those that the user's machine needs.
EXTRAS = ("convert", "dask")
_BOUND = re.compile(
    r"(?P<name>[\w.-]+)\s*>=\s*(?P<oldest>[\d.]+)(\s*,\s*<\s*[\d.]+)?\s*(?P<marker>;.*)?"
)


def constraints(setup_cfg: str) -> Iterator[str]:
    """Yield a line for each library.

    Raises:
        ValueError: A library has no oldest version.
    """
    config = configparser.ConfigParser()
    config.read_string(setup_cfg)
    wanted = config["options"]["install_requires"].splitlines()
    for extra in EXTRAS:
        wanted += config["options.extras_require"][extra].splitlines()
    for line in filter(None, map(str.strip, wanted)):
        found = _BOUND.fullmatch(line)
        if found is None:
            raise ValueError(f"no oldest version in {line!r}")
        name, oldest, marker = found.group("name", "oldest", "marker")
        yield f"{name}=={oldest}.* {marker or ''}".rstrip()


if __name__ == "__main__":
    for constraint in constraints(Path(sys.argv[1]).read_text(encoding="utf-8")):
        print(constraint)
