"""Detect which files of the source changed between two runs.

A shard's state keeps eight bytes a file: a CRC-32 of its size and modification time, and one of its
inode number. They show which file changed without a table of the source.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np

from packer.types import Array


def encode_stamps(sizes: Array, times: Array, inodes: Array) -> str:
    """Encode the stamps of files as text.

    Args:
        sizes: int64, bytes of each file.
        times: int64, modification time in ns.
        inodes: int64, inode number, 0 if there is none.
    """
    return f"{_digests(sizes, times)} {_digests(inodes)}"


def changed_files(then: str, now: str) -> list[int]:
    """Indices of the files that changed; empty if none did.

    If only some files have another inode, they were replaced, even with the old size and time. If
    all have other inodes, the folder was mounted in another way, or is a copy that kept times.
    """
    try:
        (was, was_inodes), (is_, is_inodes) = _parse(then), _parse(now)
        changed = was != is_
        replaced = was_inodes != is_inodes
    except ValueError:  # other lengths mean other files
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
