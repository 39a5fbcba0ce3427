"""The process that holds a lock, and whether it still runs on this machine."""

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

#: Most characters of a name in a lock file; a host name has at most 255.
_TEXT = 1000


@dataclass(frozen=True)
class Holder:
    """One run, as recorded in its lock file.

    Attributes:
        token: Unique for every lock ever taken.
        host: Name of its machine; two machines may share one, so it is for people only.
        kernel: Identity of the running kernel and of its PID namespace (containers have their
            own): process numbers are valid only inside it.
        pid: Process number.
        started: Start time of that process, as process numbers are used again.
        job: The batch system's name of the run, or "".
        since: When the lock was taken, for people only.
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
        """Whether it still runs; valid only if it `is_here`."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        # Another process may have got the number since.
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
    """Parse a lock file; None if it is invalid, such as truncated by a power failure."""
    try:
        holder = Holder(**parse_json(content))
    except (ValueError, TypeError):
        return None
    texts = dataclasses.asdict(holder)
    pid = texts.pop("pid")
    # Linux numbers processes up to 2^22, others up to 2^31. 0 and less mean process groups.
    is_pid = isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < 1 << 31
    are_texts = all(isinstance(text, str) and len(text) <= _TEXT for text in texts.values())
    return holder if is_pid and are_texts else None


def _kernel() -> str:
    """Identity of kernel and PID namespace on Linux; elsewhere the machine's name."""
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
