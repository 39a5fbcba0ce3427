"""Map files as memory without the risk that SIGBUS ends the process.

Access to a mapped page raises SIGBUS if the page is no longer in its file (the file was truncated
or overwritten) or if a failing disk cannot read it; SIGBUS ends the process without a message. A C
extension puts zeros there instead and counts a fault. Code that has used the memory must check
`Mapped.faults` afterwards, and `Mapped.is_same` for other changes of the file. Without the
extension no file is mapped, and callers read it instead. See
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
    - `stamp()`: numbers that differ once the file has changed;
    - `fileno()`: a descriptor of the file.

    The file stays mapped as long as this object or a slice of it is referenced.

    Args:
        descriptor: The file's descriptor; may be closed afterwards.

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
