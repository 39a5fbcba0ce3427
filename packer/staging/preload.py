"""Keep a split of a pack in shared memory: one copy for all workers and ranks of a node.

    preload="shm"    /dev/shm/NAME-<id>, kept: what `packer stage PACK /dev/shm` makes
    preload="ram"    /dev/shm/packer-ram-<user>/NAME-<id>, removed when its last user ends

Each process that uses a copy of the second kind shares a lock on it, which the kernel drops however
the process ends. A process that releases the last lock removes the copy. After runs that were
killed the copy stays; the next preload of the same user takes it over, or removes it if it is a
copy of another pack or split.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from packer.arguments import check_choice
from packer.errors import OutputError, PackerError, UsageError
from packer.files.fsio import output_errors
from packer.files.paths import given_path
from packer.pack.opened import Pack
from packer.staging.claim import Claim, try_claim
from packer.staging.excerpt import StageOptions, choose
from packer.staging.making import copy_pack, find_staged, stage_split, staged_path

Preload: TypeAlias = Literal["ram", "shm"]
PRELOADS: tuple[Preload, ...] = get_args(Preload)
#: Files in this folder are memory that all processes of a machine share.
SHARED_MEMORY = Path("/dev/shm")
_USERS = ".users"
#: Seconds until the next try to use a copy that is being removed.
_LOOK_SECONDS = 0.01


class SharedCopy:
    """This process's hold on a copy in shared memory. The copy is removed with its last hold; a
    forked child shares its parent's, and another process takes its own by unpickling.

    Args:
        claim: The lock, shared with the other processes.

    Attributes:
        root: The copy.
    """

    def __init__(self, claim: Claim) -> None:
        self.root = claim.path.parent
        # Also at the end of the interpreter.
        self._release = weakref.finalize(self, _leave, claim, os.getpid())

    def __reduce__(self) -> tuple[Callable[[Path], SharedCopy], tuple[Path]]:
        return _join, (self.root,)

    def close(self) -> None:
        """Release the hold."""
        self._release()


def open_pack(
    root: str | os.PathLike[str],
    split: str,
    stage: str | os.PathLike[str] | None,
    preload: str | None,
) -> Pack:
    """Open one split, or a staged or preloaded copy of it.

    Args:
        root: The pack.
        split: Name of the split.
        stage: A folder of this machine to copy the split to; it stays there.
        preload: "ram" or "shm": copy it into shared memory, see above.

    Raises:
        UsageError: Both at once; or as `packer.pack.opened.Pack` and `load`.
        PackerError: As `packer.staging.making.copy_pack`.
    """
    if stage is not None and preload is not None:
        raise UsageError("stage and preload are two ways to copy", "give one of them")
    source = given_path(root, "root").absolute()
    if not isinstance(split, str):
        return Pack(source, split)  # which raises, and lists the splits
    if stage is not None:
        given_path(stage, "stage")
        return Pack(stage_split(source, stage, split), split)
    if preload is not None:
        copy, holding = load(source, split, preload)
        return Pack(copy, split, holding)
    return Pack(source, split)


def load(root: Path, split: str, how: str) -> tuple[Path, SharedCopy | None]:
    """Copy one split into shared memory, unless it is there.

    Args:
        root: The pack.
        split: Name of the split.
        how: "ram" or "shm", see above.

    Returns:
        The copy, and the hold on it that keeps it there ("shm": none is needed).

    Raises:
        UsageError: Another `how`, or no shared memory here.
        OutputError: It does not fit, with the numbers; nothing was read.
        PackerError: As `packer.staging.making.copy_pack`.
    """
    how = check_choice("preload", how, PRELOADS)
    if not SHARED_MEMORY.is_dir():
        raise UsageError(f"preload needs {SHARED_MEMORY}, which is not here", "leave preload away")
    if how == "shm":
        return stage_split(root, SHARED_MEMORY, split), None
    if kept := find_staged(root, SHARED_MEMORY, split):
        return kept, None
    folder = _own_folder()
    options = StageOptions((split,))
    copy = SharedCopy(_enter(staged_path(choose(root, options), folder)))
    try:
        _remove_unused(folder)
        copy_pack(root, folder, options)
    except BaseException:
        copy.close()
        raise
    return copy.root, copy


def _own_folder() -> Path:
    """Return the folder of this user's copies, to which no other user has access."""
    folder = SHARED_MEMORY / f"packer-ram-{os.getuid()}"
    with output_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OutputError(f"{folder}: is not this user's alone", "remove it")
    return folder


def _enter(copy: Path) -> Claim:
    """Share the lock of a copy; make its folder if it does not exist."""
    while True:
        with output_errors(copy), contextlib.suppress(FileExistsError):
            copy.mkdir(0o755)
        claim = try_claim(copy / _USERS, shared=True)
        if claim is not None:
            return claim
        time.sleep(_LOOK_SECONDS)  # its last user is about to rename it


def _join(root: Path) -> SharedCopy:
    claim = try_claim(root / _USERS, shared=True)
    if claim is None:
        raise PackerError(
            f"{root}: the preloaded copy has gone", "keep the data set while others use it"
        )
    return SharedCopy(claim)


def _leave(claim: Claim, pid: int) -> None:
    if pid == os.getpid():  # a forked child holds it together with its parent
        if claim.is_last():
            _remove(claim.path.parent)
        claim.close()


def _remove_unused(folder: Path) -> None:
    """Remove unused copies, left by runs that were killed."""
    for copy in folder.iterdir():
        claim = try_claim(copy / _USERS)
        if claim is not None:
            with claim:
                _remove(copy)


def _remove(copy: Path) -> None:
    """Remove a copy, under a new name first, so that no process starts to use it meanwhile."""
    gone = copy.with_name(f"gone-{uuid.uuid4().hex}")
    # At the end of a process no one reads an error; the next preload tries again.
    with contextlib.suppress(OSError):
        copy.rename(gone)
        shutil.rmtree(gone)
