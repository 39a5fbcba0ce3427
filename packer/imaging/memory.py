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

from packer.imaging.probe import PIXEL_LIMIT

#: Most bytes that converting takes for each pixel: 4 of Pillow's or 4 of simplejpeg's pixels, 3 of
#: ours, and 6 of a progressive JPEG's coefficients, not all at the same time.
BYTES_PER_PIXEL: Final = 12
#: Pixels from which on a picture is large: below it one takes less than 400 MB.
LARGE: Final = 1 << 25

_CGROUP: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
_MEMINFO: Final = Path("/proc/meminfo")

_turns: AbstractContextManager[Any] | None = None


def take_turns(turns: AbstractContextManager[Any] | None) -> None:
    """Let large pictures of this process wait for a semaphore; None: for nothing."""
    global _turns  # noqa: PLW0603 - workers have one each, set when they start
    _turns = turns


def at_once(workers: int) -> int:
    """How many of the largest pictures there is memory for: at least one, at most `workers`."""
    return max(1, min(workers, available() // (PIXEL_LIMIT * BYTES_PER_PIXEL)))


@contextlib.contextmanager
def _one_of_few(pixels: int) -> Iterator[None]:
    with _turns or contextlib.nullcontext():
        if pixels * BYTES_PER_PIXEL > available():
            raise MemoryError(f"{pixels * BYTES_PER_PIXEL:,} bytes for {pixels:,} pixels")
        yield


def place_for(pixels: int) -> AbstractContextManager[None]:
    """A context in which a picture of so many pixels is converted.

    Raises:
        MemoryError: On entering: there is less memory than it may take.
    """
    return _one_of_few(pixels) if pixels > LARGE else contextlib.nullcontext()


def has_room(pixels: int) -> bool:
    """Whether this process may still take what a picture may need. Libraries say in many ways, or
    not at all, that they got no memory.
    """
    try:
        mmap.mmap(-1, max(1, pixels * BYTES_PER_PIXEL)).close()
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
