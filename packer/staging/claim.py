"""Lock folders of this machine; the kernel drops a lock when its holder dies.

For local disks and memory only: flock on network file systems reaches no other machine, or fails.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType

from packer.errors import OutputError
from packer.files.fsio import output_error
from packer.files.rights import is_trusted


class Claim:
    """A lock file that this process holds, alone or shared with others.

    Closing releases it; so does the end of the process, whatever its cause. A forked child holds it
    together with its parent.

    Attributes:
        path: The lock file.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_last(self) -> bool:
        """Turn a shared claim into an exclusive one; return whether that succeeded.

        If other processes share it, this claim is released.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            return False
        return True


def try_claim(path: Path, *, shared: bool = False) -> Claim | None:
    """Lock a file, made if it is not there, unless others hold it or its folder is gone.

    Args:
        path: The lock file. Its holder may remove it: what was locked then is no claim.
        shared: With others that share it; else alone.

    Raises:
        OutputError: It cannot be made, another user has put something there, or the file system
            has no locks.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise output_error(path, error) from error
    claim = Claim(path, descriptor)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not is_trusted(status):
        claim.close()
        raise OutputError(f"{path}: is not a lock file of this user", "remove it")
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return claim
    except (BlockingIOError, FileNotFoundError):
        pass  # other processes hold it, or its last holder removed it
    except OSError as error:
        claim.close()
        raise OutputError(
            f"{path}: cannot be locked: {error.strerror}", "use a local disk, or /dev/shm"
        ) from error
    claim.close()
    return None
