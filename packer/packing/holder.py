"""Who holds a lock, and whether that process of this machine still lives."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from packer.escape import BACKSLASH, escape
from packer.files.regular import parse_json

#: Characters of a name in a lock file, at most; a host has 255.
_TEXT = 1000


@dataclass(frozen=True)
class Holder:
    """One run, as its lock file names it.

    Attributes:
        token: Unique for every lock that was ever taken.
        host: Name of its machine; two machines may share one, so it is for people only.
        kernel: Which running kernel, and which of its process number spaces (containers have
            their own): process numbers mean something inside of it alone.
        pid: Its process.
        started: When that process started, as process numbers are used again.
        job: What a batch system calls it, or "".
        since: When it took the lock, for people only.
    """

    token: str
    host: str
    kernel: str
    pid: int
    started: str
    job: str
    since: str

    def to_bytes(self) -> bytes:
        """The lock file's content."""
        return json.dumps(dataclasses.asdict(self)).encode()

    def __str__(self) -> str:
        job = f", {self.job}" if self.job else ""
        text = f"packer on {self.host}, process {self.pid}{job}, since {self.since}"
        return escape(text, keep=BACKSLASH)  # another machine wrote it

    def is_here(self) -> bool:
        """Whether its process would be visible from this one."""
        return self.kernel == _kernel()

    def lives_here(self) -> bool:
        """Whether it still runs; only if it `is_here`."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        # The number may have gone to another process since.
        return self.started == _start_time(self.pid)


def myself(job: str = "") -> Holder:
    """This process, with a new token."""
    return Holder(
        token=uuid.uuid4().hex,
        host=socket.gethostname(),
        kernel=_kernel(),
        pid=os.getpid(),
        started=_start_time(os.getpid()),
        job=job,
        since=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    )


def read_holder(content: bytes) -> Holder | None:
    """Whom a lock file names; None if it names nobody: a power failure has left less of it."""
    try:
        holder = Holder(**parse_json(content))
    except (ValueError, TypeError):
        return None
    texts = dataclasses.asdict(holder)
    pid = texts.pop("pid")
    # Linux numbers processes up to 2^22, others up to 2^31. 0 and less would be groups of them.
    is_pid = isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < 1 << 31
    are_texts = all(isinstance(text, str) and len(text) <= _TEXT for text in texts.values())
    return holder if is_pid and are_texts else None


def _kernel() -> str:
    """Linux says which; elsewhere the machine's name has to do."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 (no real path)
    except OSError:
        return socket.gethostname()


def _start_time(pid: int) -> str:
    """Start of a process in clock ticks since boot, field 22 of /proc/PID/stat; else ""."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
