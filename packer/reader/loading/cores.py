"""The default number of a loader's threads."""

from __future__ import annotations

import math
import os
from pathlib import Path

from packer.reader.order import ranks

_CGROUPS = Path("/sys/fs/cgroup")


def default_threads() -> int:
    """Return this process's part of the cores: the cores that it may use, divided by the number of
    ranks on its node, unless each rank is bound to cores of its own.
    """
    cores = usable_cores()
    everywhere = os.cpu_count() or 1
    ranks_here = ranks.on_this_node()
    # A launcher that binds ranks to cores has divided them already.
    return max(1, cores if cores <= everywhere // ranks_here else cores // ranks_here)


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Return the number of cores that this process may use: the smaller of its CPU affinity and its
    control group's quota, rounded up.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = _quota(cgroups)
    return allowed if quota is None else max(1, min(allowed, math.ceil(quota)))


def _quota(cgroups: Path) -> float | None:
    """Return the processor time that a container may use, in cores; None if it has no limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            words = " ".join((cgroups / name).read_text() for name in names).split()
            quota, period = float(words[0]), float(words[1])
        except (OSError, ValueError, IndexError):
            continue  # no such control group, or "max": no limit
        if quota > 0 and period > 0:
            return quota / period
    return None
