"""Name the limit for which the system refused a process, a thread, a semaphore or memory."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from pathlib import Path

_UNLIMITED = resource.RLIM_INFINITY
#: Python's message if pthread_create fails; the error has no type of its own.
_NO_THREAD = "can't start new thread"
#: Message of the dynamic linker if address space for a library is missing.
_NO_ROOM = "failed to map segment"


def is_thread_refusal(error: BaseException) -> bool:
    """Whether this error means that no thread could be started."""
    return isinstance(error, RuntimeError) and _NO_THREAD in str(error)


def is_memory_refusal(error: BaseException) -> bool:
    """Whether this error means that memory was missing, also for loading a library."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and _NO_ROOM in str(error)
    )


def why_refused(error: BaseException) -> str:
    """Name of the limit that was reached, for a message.

    Args:
        error: Error raised when a process or thread was started or a semaphore was made.
    """
    code = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if code == errno.EAGAIN or is_thread_refusal(error):
        return f"no more processes or threads may be started ({', '.join(_process_limits())})"
    if code == errno.ENOMEM or is_memory_refusal(error):
        return f"not enough memory ({', '.join(_memory_limits()) or 'of the machine'})"
    if code in (errno.EMFILE, errno.ENFILE):
        return f"{reason} (ulimit -n: {resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
    if isinstance(error, OSError):
        # The remaining case: POSIX semaphores, which Linux keeps as files in /dev/shm.
        return f"/dev/shm, where semaphores are made: {reason}; in a container: --shm-size=1g"
    return " ".join(reason.split())


def _process_limits() -> list[str]:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits = [] if soft == _UNLIMITED else [f"ulimit -u: {soft}, this user has {_tasks()}"]
    limits += _cgroup_limits()
    # Limits of memory count, too: a thread needs address space for its stack.
    return limits + _memory_limits() or ["no limit of this process: ask the administrator"]


def _memory_limits() -> list[str]:
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return [] if soft == _UNLIMITED else [f"ulimit -v: {soft // 1024} kB"]


def _tasks() -> int:
    """Number of threads of this user's processes: the number that RLIMIT_NPROC limits."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if folder.stat().st_uid == os.getuid():
                count += sum(1 for _ in (folder / "task").iterdir())
    return count


def _cgroup_limits() -> list[str]:
    """Limit of processes of the control group, if version 2 states one."""
    with contextlib.suppress(OSError, ValueError):
        path = Path("/proc/self/cgroup").read_text("ascii").splitlines()[-1].split(":", 2)[2]
        for folder in (Path("/sys/fs/cgroup") / path.strip("/"), Path("/sys/fs/cgroup")):
            with contextlib.suppress(FileNotFoundError):
                most = (folder / "pids.max").read_text("ascii").strip()
                used = (folder / "pids.current").read_text("ascii").strip()
                return [] if most == "max" else [f"pids.max of {folder}: {most}, {used} in use"]
    return []
