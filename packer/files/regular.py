"""Read regular files of bounded size, and nothing else: reading a pipe waits for a writer, reading
a device never ends, and a link may lead to another file than the intended one.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any

#: Largest JSON file in bytes that packer writes for its own use. The largest is the state of a
#: shard whose pictures were all skipped: about 300 bytes each.
JSON_BYTES = 256 << 20


class NotRegular(OSError):
    """The path is a pipe, a device, a folder, or a link that is not allowed."""


def open_regular(path: Path, *, follow: bool = False) -> io.FileIO:
    """Open as `open_descriptor`, and return an unbuffered file."""
    return io.FileIO(open_descriptor(path, follow=follow), "rb")


def open_descriptor(path: Path, *, follow: bool = False) -> int:
    """Open a regular file for reading, without waiting.

    Args:
        path: The file.
        follow: Whether it may be a symbolic link to one.

    Raises:
        NotRegular: It is not a regular file.
        OSError: It does not exist or cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise NotRegular(errno.ELOOP, "is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "is not a regular file", str(path))
    return descriptor


def read_regular(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """Return all bytes of a regular file.

    Args:
        path: The file.
        limit: Most bytes that it may have.
        follow: Whether it may be a symbolic link to one.

    Raises:
        OSError: As `open_regular`, or it has more bytes.
    """
    with open_regular(path, follow=follow) as file:
        parts = []
        left = limit + 1 if os.fstat(file.fileno()).st_size <= limit else 0
        # The file may grow meanwhile. Read in pieces: each call allocates all the bytes it
        # requests.
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"has more than {limit:,} bytes", str(path))
    return b"".join(parts)


def read_json(path: Path, limit: int = JSON_BYTES) -> Any:
    """Return the value in a regular JSON file.

    Raises:
        OSError: As `read_regular`.
        ValueError: It is not JSON, or nested too deeply.
    """
    return parse_json(read_regular(path, limit))


def reason(error: Exception) -> str:
    """Return the reason of an error of these functions in a few words, without a path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
