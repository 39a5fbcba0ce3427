"""Count RPCs and bytes of a mount, and empty its cache, for bench_nfs.py."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds until the counters include files that a client closes in the background.
_SETTLE_SECONDS = 0.1


@dataclass
class Counts:
    """Network traffic of a mount.

    Attributes:
        ops: Number of remote procedure calls by kind.
        read: Bytes of files fetched from the server.
    """

    ops: Counter[str] = field(default_factory=Counter)
    read: int = 0

    @property
    def rpcs(self) -> int:
        """Return the number of all calls."""
        return sum(self.ops.values())

    def since(self, before: Counts) -> Counts:
        """Return the difference to an earlier count."""
        return Counts(self.ops - before.ops, self.read - before.read)


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Args:
        folder: A folder on it.
        stats: Command that prints JSON with "ops" (calls by kind) and "read_from_server" (bytes),
            counted since any moment; None: the Linux NFS client's own counters, if it is one.
        cold: Command that empties the client's caches, best by mounting anew; None: the pages of
            the files below `folder` are dropped, names and attributes stay.
    """

    folder: Path
    stats: str | None = None
    cold: str | None = None

    def counts(self) -> Counts | None:
        """Return the counts so far; None if there are none."""
        time.sleep(_SETTLE_SECONDS)
        if self.stats is not None:
            told = json.loads(subprocess.check_output(shlex.split(self.stats)))
            return Counts(Counter(told["ops"]), told["read_from_server"])
        try:
            lines = Path("/proc/self/mountstats").read_text().splitlines()
        except OSError:  # not Linux
            return None
        return parse_mountstats(lines, mount_point(self.folder))

    def make_cold(self) -> None:
        """Empty the client's caches."""
        if self.cold is not None:
            subprocess.run(shlex.split(self.cold), check=True)
            return
        for path in self.folder.rglob("*"):
            if path.is_file():
                number = os.open(path, os.O_RDONLY)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(number)


def mount_point(folder: Path) -> str:
    """Return the mount point of a folder's file system."""
    folder = folder.resolve()
    return str(next(path for path in (folder, *folder.parents) if path.is_mount()))


def parse_mountstats(lines: Iterable[str], mounted: str) -> Counts | None:
    """Parse an NFS mount's counters in /proc/self/mountstats; None if it is not an NFS mount.

    The format is the kernel's (net/sunrpc/stats.c, fs/nfs/super.c): "bytes:" has the bytes fetched
    from the server as its fifth number; behind "per-op statistics" each line has a call's name and,
    first, how many operations of it there were.
    """
    counts: Counts | None = None
    within = calls = False
    for line in lines:
        words = line.split()
        if line.startswith("device "):
            # "device SERVER mounted on FOLDER with fstype nfs4 statvers=1.1"
            within, calls = words[4] == mounted and words[7].startswith("nfs"), False
            if within:
                counts = Counts()  # the last of several mounts at one place hides the others
        elif within and counts is not None and words:
            if words[0] == "bytes:":
                counts.read = int(words[5])
            elif words[0] == "per-op":
                calls = True
            elif calls and words[0].endswith(":") and int(words[1]):
                counts.ops[words[0][:-1]] = int(words[1])
    return counts
