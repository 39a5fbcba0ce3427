"""Memory for large pictures: how much there is, and how many are decoded at a time.

A picture near the pixel limit takes 2 GB while it is converted, so one in each worker may need more
memory than the machine has. Large pictures then wait for one another; which pictures are stored
never depends on the machine.
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

#: Bytes that a conversion takes for each pixel: 4 in Pillow's or simplejpeg's picture, and 3 in
#: ours or 4 in a resized picture …
_PLAIN: Final = 8
#: … and 2 for each coefficient of a progressive JPEG.
_COEFFICIENTS: Final = 6
#: Bytes from which on a picture counts as large: a picture of 33 megapixels.
LARGE: Final = 1 << 28

_CGROUP: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")

_turns: AbstractContextManager[Any] | None = None


def take_turns(turns: AbstractContextManager[Any] | None) -> None:
    """Let large pictures of this process wait for a semaphore; None: no waiting."""
    global _turns  # noqa: PLW0603 - workers have one each, set when they start
    _turns = turns


def needed(head: Head, divisor: int) -> int:
    """Bytes that converting a picture may take.

    Args:
        head: The picture's header.
        divisor: Divisor of its sides while it is decoded.
    """
    pixels = head.width * head.height
    coefficients = pixels * _COEFFICIENTS if head.coding == "progressive" else 0
    return coefficients + pixels * _PLAIN // divisor**2


def at_once(workers: int) -> int:
    """How many pictures of the largest size fit into memory: at least one, at most `workers`."""
    return max(1, min(workers, available() // (PIXEL_LIMIT * (_PLAIN + _COEFFICIENTS))))


@contextlib.contextmanager
def _one_of_few(size: int) -> Iterator[None]:
    with _turns or contextlib.nullcontext():
        if size > available():
            raise MemoryError(f"{size:,} bytes")
        yield


def place_for(size: int) -> AbstractContextManager[None]:
    """A context in which a picture that takes `size` bytes is converted.

    Raises:
        MemoryError: On entering: there is less memory than that.
    """
    return _one_of_few(size) if size > LARGE else contextlib.nullcontext()


def has_room(size: int) -> bool:
    """Whether this process can still allocate `size` bytes. Libraries report a failed allocation in
    many ways, or not at all.
    """
    try:
        mmap.mmap(-1, max(1, size)).close()
    except (OSError, MemoryError):
        return False
    return True


def available() -> int:
    """Bytes left on this machine and in the control groups of this process."""
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
    """Bytes left in a control group and in its parents. The page cache counts as free, because the
    kernel reclaims it. In a container the group's own path may be missing, but its root exists.
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
