"""Whether files of the source changed between two runs, and which.

A shard's state keeps eight bytes a file: a CRC-32 of its size and modification time, and one of its
inode number. They tell which file changed without keeping a table of the source.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np

from packer.types import Array


def encode_stamps(sizes: Array, times: Array, inodes: Array) -> str:
    """Text that differs from an earlier one where files changed.

    Args:
        sizes: int64, bytes of each file.
        times: int64, modification time in ns.
        inodes: int64, inode number, 0 where there is none.
    """
    return f"{_digests(sizes, times)} {_digests(inodes)}"


def changed_files(then: str, now: str) -> list[int]:
    """Which files changed, by their place in the arrays; empty if none did.

    A file that alone has another inode was replaced, though it has the old size and time. If all
    have other inodes, what changed is how the folder is mounted, or it is a copy that kept times.
    """
    try:
        (was, was_inodes), (is_, is_inodes) = _parse(then), _parse(now)
        changed = was != is_
        replaced = was_inodes != is_inodes
    except ValueError:  # of other lengths: not of the same files
        return list(range(len(_parse(now)[0])))
    if not replaced.all():
        changed |= replaced
    return [int(number) for number in changed.nonzero()[0]]


def _digests(*columns: Array) -> str:
    rows = np.stack(columns, axis=1).astype("<i8")
    width = rows.shape[1] * rows.itemsize
    data = rows.tobytes()
    digests = [zlib.crc32(data[at : at + width]) for at in range(0, len(data), width)]
    return base64.b64encode(np.array(digests, "<u4").tobytes()).decode()


def _parse(text: str) -> tuple[Array, Array]:
    one, two = (np.frombuffer(base64.b64decode(part), "<u4") for part in text.split())
    if len(one) != len(two):
        raise ValueError("columns of different lengths")
    return one, two
