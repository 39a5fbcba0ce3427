"""Memory for large pictures: how much there is, and how many are decoded at a time.

A picture near the pixel limit takes 2 GB while it is converted, so as many of them as there are
workers may need more than the machine has. Those that are large wait for one another then; which
pictures are stored never depends on the machine.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from packer.imaging.heads.head import Head
from packer.imaging.heads.probe import PIXEL_LIMIT

#: Bytes that converting takes for each pixel: 4 of Pillow's or simplejpeg's pixels, and 3 of ours
#: or 4 of a resized picture's …
_PLAIN: Final = 8
#: … and 2 for each coefficient of a progressive JPEG.
_COEFFICIENTS: Final = 6
#: Bytes from which on a picture is large: what 33 megapixels take.
LARGE: Final = 1 << 28

_CGROUP: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")

_turns: AbstractContextManager[Any] | None = None


def take_turns(turns: AbstractContextManager[Any] | None) -> None:
    """Let large pictures of this process wait for a semaphore; None: for nothing."""
    global _turns  # noqa: PLW0603 - workers have one each, set when they start
    _turns = turns


def needed(head: Head, divisor: int) -> int:
    """Bytes that converting a picture may take.

    Args:
        head: Its head.
        divisor: By what its sides are divided while it is decoded.
    """
    pixels = head.width * head.height
    coefficients = pixels * _COEFFICIENTS if head.coding == "progressive" else 0
    return coefficients + pixels * _PLAIN // divisor**2


def at_once(workers: int) -> int:
    """How many of the largest pictures there is memory for: at least one, at most `workers`."""
    return max(1, min(workers, available() // (PIXEL_LIMIT * (_PLAIN + _COEFFICIENTS))))


@contextlib.contextmanager
def _one_of_few(size: int) -> Iterator[None]:
    with _turns or contextlib.nullcontext():
        if size > available():
            raise MemoryError(f"{size:,} bytes")
        yield


def place_for(size: int) -> AbstractContextManager[None]:
    """A context in which a picture that takes so many bytes is converted.

    Raises:
        MemoryError: On entering: there is less memory.
    """
    return _one_of_few(size) if size > LARGE else contextlib.nullcontext()


def has_room(size: int) -> bool:
    """Whether this process may still take so many bytes. Libraries say in many ways, or not at
    all, that they got no memory.
    """
    try:
        mmap.mmap(-1, max(1, size)).close()
    except (OSError, MemoryError):
        return False
    return True


def available() -> int:
    """Bytes that this machine, and the control groups that this process is in, have left."""
    found = [1 << 62]
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        found.append(int(fields["MemAvailable"].split()[0]) << 10)
    with contextlib.suppress(OSError, ValueError):
        for line in _SELF.read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                found += _left(_CGROUP, path, ("memory.max", "memory.current"))
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
                found += _left(_CGROUP / "memory", path, names)
    return max(0, min(found))


def _left(root: Path, path: str, names: tuple[str, str]) -> Iterator[int]:
    """What a control group and those around it have left. Pages of files are given back when
    memory is short. In a container the group's own path may not be there, but its root is.
    """
    folder = root / path.lstrip("/")
    for place in (folder, *folder.parents):
        if not place.is_relative_to(root):
            return
        try:
            limit = int((place / names[0]).read_text(encoding="ascii"))
            usage = int((place / names[1]).read_text(encoding="ascii"))
            stat = (place / "memory.stat").read_text(encoding="ascii").split()
        except (OSError, ValueError):  # no limit ("max"), or no such file
            continue
        counts = dict(zip(stat[::2], stat[1::2], strict=False))
        cached = int(counts.get("file", counts.get("total_cache", "0")))
        yield limit - max(0, usage - cached)
