"""The default number of a loader's threads."""

from __future__ import annotations

import os

from packer.cores import usable_cores
from packer.reader.order import ranks


def default_threads() -> int:
    """Return this process's part of the cores: the cores that it may use, divided by the number of
    ranks on its node, unless each rank is bound to cores of its own.
    """
    cores = usable_cores()
    everywhere = os.cpu_count() or 1
    ranks_here = ranks.on_this_node()
    # A launcher that binds ranks to cores has divided them already.
    return max(1, cores if cores <= everywhere // ranks_here else cores // ranks_here)
