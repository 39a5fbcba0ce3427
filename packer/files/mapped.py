"""Files as memory that cannot end the process.

Touching a mapped page that is no longer in its file (somebody has cut the file short, or copies
another one over it), or that a failing disk does not give, is a SIGBUS, which ends a process
without a word. A C extension puts zeros there instead and counts a fault; code that has used the
memory asks afterwards: `Mapped.faults`, and `Mapped.is_same` for a file that has changed otherwise.
Without the extension no file is mapped; read it instead. See
docs/decisions/0020-changed-while-mapped.md.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from packer.extension import Extension

if TYPE_CHECKING:
    from packer.files._mapped import Mapped

NATIVE = Extension("packer.files._mapped")


def map_file(descriptor: int) -> Mapped:
    """All of an open file as memory: an object with the buffer interface, and

    - `faults`: how many pages could not be read and are zeros now;
    - `stamp()`: numbers that are others once the file has changed;
    - `fileno()`: a descriptor of the file.

    The file stays mapped as long as anybody sees this object or a slice of it.

    Args:
        descriptor: Of the file; may be closed afterwards.

    Raises:
        OSError: It cannot be mapped: no extension, no address space, an empty file.
    """
    native = NATIVE.module
    if native is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    native.arm()
    found: Mapped = native.Mapped(descriptor)
    return found


def arm() -> None:
    """Handle SIGBUS in this process, before mapped memory is used: other code may have set a
    handler of its own since the last time, as torch does in DataLoader's workers.
    """
    native = NATIVE.module
    if native is not None:
        native.arm()
