"""Who may write to an output folder: one run, or one run a part.

A lock is a file that is linked to its name with its content in it, which has one winner on every
file system, NFS v3 included. It says who holds it. A holder of this machine that is dead is
replaced; of another machine nothing can be known, so the message says what to remove once it is
surely dead.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from packer.errors import OutputError
from packer.fsio import publish, remove_if_there, temp_path, write_temp

_WHOLE = "lock-all"


@dataclass
class Lock:
    """Held while the block runs.

    Args:
        folder: OUT/.packer, where lock files are.
        part: Number of the part, or None for a run that makes all shards and so excludes all.

    Raises:
        OutputError: Another run holds it; the message says who.
    """

    folder: Path
    part: int | None

    def __enter__(self) -> Lock:
        path = self._path
        while not _create(path):
            _replace_dead(path)
        for other in sorted(self.folder.glob("lock-*")):
            excludes = self.part is None or other.name == _WHOLE
            if other != path and not other.name.endswith(".tmp") and excludes:
                try:
                    _replace_dead(other)
                except OutputError:
                    remove_if_there(path)
                    raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        remove_if_there(self._path)

    @property
    def _path(self) -> Path:
        return self.folder / (_WHOLE if self.part is None else f"lock-{self.part}")


def _create(path: Path) -> bool:
    """Make the lock file with its content in one step, if nobody has it."""
    temp = write_temp(path.parent, path.name, json.dumps(_myself()).encode())
    if publish(temp, path):
        return True
    remove_if_there(temp)
    return False


def _replace_dead(path: Path) -> None:
    """Remove the lock of a dead run of this machine; refuse if its holder may live."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    try:
        holder = json.loads(text)
    except ValueError:  # cut short by a power failure: its writer is gone
        holder = {}
    if holder and not _is_dead(holder):
        raise OutputError(
            f"{path.parent.parent}: in use by another packer on {holder.get('host')},"
            f" process {holder.get('pid')}, since {holder.get('since')}",
            f"if that run is surely dead, remove {path}",
        )
    # Renaming first: of two runs that find the same dead holder, one gets the file.
    aside = temp_path(path.parent, path.name)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    if aside.read_text(encoding="utf-8") == text:
        remove_if_there(aside)
    else:  # somebody was faster and this is their live lock: give it back
        os.link(aside, path)
        remove_if_there(aside)


def _myself() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _boot_id(),
        "pid": os.getpid(),
        "started": _start_time(os.getpid()),
        "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _is_dead(holder: dict[str, Any]) -> bool:
    if holder.get("host") != socket.gethostname():
        return False
    if holder.get("boot") != _boot_id():
        return True
    pid = holder.get("pid")
    if not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # The number may have gone to another process since.
    return bool(holder.get("started") != _start_time(pid))


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Start of a process in clock ticks since boot, field 22 of /proc/PID/stat; else ""."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
