"""Measure the free space of a folder, and name what limits it.

Files in a tmpfs (/dev/shm) are memory: beside the file system's own size, the machine's available
memory and the cgroup of a job bind, and running into those ends in a killed process, not an error.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Space:
    """Free space for new files.

    Attributes:
        free: Free space in bytes.
        limit: Name of what limits it, for a message.
    """

    free: int
    limit: str


def free_space(folder: Path, system: Path = Path("/")) -> Space:
    """Return the free space of a folder.

    Args:
        folder: An existing folder.
        system: Folder that holds /proc and /sys.

    Raises:
        OSError: The file system does not report it.
    """
    status = os.statvfs(folder)
    spaces = [Space(status.f_bavail * status.f_frsize, "the file system")]
    if in_memory(folder.stat().st_dev):
        # A tmpfs without a size of its own reports no blocks at all.
        spaces = [*(spaces if status.f_blocks else []), *_memory(system)]
    return min(spaces, key=lambda space: space.free)


def in_memory(device: int) -> bool:
    """Return whether files of this device (`st_dev`) are in memory: tmpfs, ramfs."""
    return file_system(device) in _MEMORY_FILE_SYSTEMS


@functools.lru_cache(maxsize=64)
def file_system(device: int) -> str:
    """Return the file system type of a device (`st_dev`), such as "ext4"; "" if the system does not
    report it.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _lines(Path("/proc/self/mountinfo")):
        # mount id, parent, major:minor, root, mount point, options … - file system, source, options
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == wanted:
            return kind.split()[0]
    return ""


def _memory(system: Path) -> Iterator[Space]:
    """Return the free memory of the machine and of this process's cgroups."""
    for line in _lines(system / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield Space(int(value.split()[0]) * 1024, "the machine's available memory")
    for line in _lines(system / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        mounted = system / "sys/fs/cgroup"
        if "memory" in controllers.split(","):
            yield from _cgroup(mounted / "memory", path, "limit_in_bytes", "usage_in_bytes")
        elif not controllers:  # version 2
            yield from _cgroup(mounted, path, "max", "current")


def _cgroup(mounted: Path, path: str, limit: str, usage: str) -> Iterator[Space]:
    """Return the free memory of a cgroup and of those above it. In a container the path may be the
    host's, which is not mounted there; then the mount itself is the container's cgroup.
    """
    folder = mounted / path.strip("/")
    for place in (folder, *folder.parents):
        if place == mounted.parent:
            break
        allowed, used = (_number(place / f"memory.{name}") for name in (limit, usage))
        if allowed is not None and used is not None:
            # The kernel frees cached pages of unused files when memory is short.
            used -= min(used, _inactive_file(place))
            yield Space(max(0, allowed - used), f"the memory limit of cgroup {place}")


def _inactive_file(folder: Path) -> int:
    rows = (line.split() for line in _lines(folder / "memory.stat"))
    found = {row[0]: int(row[1]) for row in rows if len(row) == 2}
    # Version 1 counts sub-groups in the entries that begin with total_.
    return found.get("total_inactive_file", found.get("inactive_file", 0))


def _number(path: Path) -> int | None:
    """Return the number in a file; None for "max" or if there is no such file."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    """Return the lines of a system file; none if it does not exist (other systems, containers)."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
