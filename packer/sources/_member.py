"""One member of an archive, as the readers of tar and zip headers hand it on."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from packer.errors import ImageError

#: How many numbers there are in `Member.numbers`.
NUMBERS = 6


class Member(NamedTuple):
    """A member, in archive order.

    Attributes:
        name: As the archive has it, raw bytes.
        kind: hardlink: to an earlier member, `target` being its name; special: FIFO or device.
        start: Offset in the archive file: of the data (tar), of the local header (zip).
        stored: Bytes of the data as they lie in the archive.
        size: Bytes of the data once they are inflated.
        stamp: Modification time in ns.
        method: 0 stored, 8 deflated.
        crc32: Of the inflated data (zip; 0 in tar, which has none).
        target: Of links.
    """

    name: bytes
    kind: Literal["file", "folder", "symlink", "hardlink", "special"]
    start: int = 0
    stored: int = 0
    size: int = 0
    stamp: int = 0
    method: int = 0
    crc32: int = 0
    target: bytes = b""

    @property
    def numbers(self) -> tuple[int, int, int, int, int, int]:
        """start, stored, size, stamp, method, crc32."""
        return self[2:8]


def pread(fd: int, size: int, offset: int) -> bytes:
    """Exactly `size` bytes, unless the file ends before.

    Positional reads share no file position: threads and forked processes may use one `fd`.
    """
    data = os.pread(fd, size, offset)
    while len(data) < size:  # one read() ends at 2 GiB, and may end earlier on network disks
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def read_whole(fd: int, size: int, offset: int) -> bytes:
    """Exactly `size` bytes.

    Raises:
        ImageError: The file ends before.
    """
    data = pread(fd, size, offset)
    if len(data) < size:
        raise ImageError("unreadable", f"the archive ends within it, at byte {offset + len(data)}")
    return data
