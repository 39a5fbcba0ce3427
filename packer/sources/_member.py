"""Describe a member of an archive, for the readers of tar and zip headers."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from packer.errors import ImageError

#: Number of values in `Member.numbers`.
NUMBERS = 6


class Member(NamedTuple):
    """A member, in archive order.

    Attributes:
        name: Name in the archive, as raw bytes.
        kind: hardlink: to an earlier member, `target` being its name; special: FIFO or device.
        start: Offset in the archive file: of the data (tar), of the local header (zip).
        stored: Size of the data in the archive in bytes.
        size: Size of the decompressed data in bytes.
        stamp: Modification time in ns.
        method: 0 stored, 8 deflated.
        crc32: CRC-32 of the decompressed data (zip; 0 in tar, which has none).
        target: Target of a link.
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
        """Return start, stored, size, stamp, method and crc32."""
        return self[2:8]


def pread(fd: int, size: int, offset: int) -> bytes:
    """Return `size` bytes, or fewer if the file ends before.

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
    """Return exactly `size` bytes.

    Raises:
        ImageError: The file ends before.
    """
    data = pread(fd, size, offset)
    if len(data) < size:
        raise ImageError("unreadable", f"the archive ends within it, at byte {offset + len(data)}")
    return data
