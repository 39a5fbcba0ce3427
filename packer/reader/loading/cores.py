"""How many threads a loader gets when nobody says."""

from __future__ import annotations

import os

from packer.cores import usable_cores
from packer.reader.order import ranks


def default_threads() -> int:
    """This process's part of the cores: those that it may use, divided by the ranks of its node
    unless each of them is bound to cores of its own.
    """
    cores = usable_cores()
    everywhere = os.cpu_count() or 1
    ranks_here = ranks.on_this_node()
    # A launcher that binds ranks to cores has divided them already.
    return max(1, cores if cores <= everywhere // ranks_here else cores // ranks_here)
