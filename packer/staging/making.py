"""Copy a pack, or an excerpt, to a disk or to memory of this machine, once for all processes.

    DEST/NAME-<id>/              the copy, a pack like any other once its manifest is there
    DEST/NAME-<id>/.staging/     lock and temp files while it is made
    DEST/NAME-<id>-<user>/       the same, if another user has taken that name

The id is a digest of the manifest and of the chosen files, so a pack that was made anew is staged
anew, and another pack of the same name has another copy. The process that holds the lock copies;
the others wait, and continue the copying if that process dies. Other users have no more rights on a
copy than on the pack; only this user can look into it while it is made.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packer.errors import OutputError
from packer.files.fsio import (
    make_folder,
    output_errors,
    remove_if_there,
    sha256_file,
    sync_folder,
    write_temp,
)
from packer.files.naming import move
from packer.files.paths import given_path
from packer.files.rights import Rights, is_trusted
from packer.files.space import free_space
from packer.pack.manifest import NAME
from packer.reporting import Progress, Reporter
from packer.staging.claim import try_claim
from packer.staging.copying import FileCopy, copy_files
from packer.staging.excerpt import Excerpt, StageOptions, choose
from packer.staging.found import OtherCopies, is_complete, is_free, is_own

_WORK = ".staging"
_LOCK = "lock"
#: Seconds between two checks whether another process has finished.
_LOOK_SECONDS = 0.2


def copy_pack(
    root: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: StageOptions | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """Copy a pack to a folder of this machine, unless it is there; many processes may call this.

    Files that an earlier run has copied are kept; shards that the folder has in another excerpt of
    the same pack are linked, not copied. Every shard's SHA-256 is compared while it is copied.

    Args:
        root: The pack.
        dest: A folder on a local disk or in memory; made if it is not there.
        options: The files to choose.
        reporter: Called with the number of bytes copied so far.

    Returns:
        The copy: a folder in `dest`.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: It has no such split; an invalid fraction.
        DamageError: A file of the pack is missing or damaged; it is not in the copy.
        OutputError: Not enough room, with the numbers; or `dest` cannot be written to.
        PackerError: The pack cannot be read.
    """
    options, reporter = options or StageOptions(), reporter or Reporter()
    source, dest = given_path(root, "root").absolute(), given_path(dest, "dest").absolute()
    excerpt = choose(source, options)
    _prepare(dest)
    target = staged_path(excerpt, dest)
    _tell_of_rights(excerpt.source, target, reporter)
    there = -1  # bytes that another process has copied so far
    while not is_complete(target):
        _make_own_folder(target)
        claim = try_claim(target / _WORK / _LOCK)
        if claim is None:
            if there < 0:
                reporter.note(f"waiting for another process that stages {target}")
            there = max(there, _bytes_there(target))
            reporter.progress(Progress(min(there, excerpt.size), excerpt.size))
            time.sleep(_LOOK_SECONDS)
            continue
        with claim:
            try:
                if not is_complete(target):
                    _Staging(excerpt, target, options.jobs, reporter).run()
            finally:
                _remove_work(target)
    _close_to_others(target, excerpt.source)
    return target


def stage_split(root: Path, dest: str | os.PathLike[str], split: str) -> Path:
    """Return a copy of one split in `dest`: the copy of the whole pack if there is one, else its
    own.

    Raises:
        PackerError: As `copy_pack`.
    """
    return find_staged(root, dest, split) or copy_pack(root, dest, StageOptions((split,)))


def find_staged(root: Path, dest: str | os.PathLike[str], split: str) -> Path | None:
    """Return a complete copy in `dest` that has all of a split.

    Raises:
        PackerError: As `choose`.
    """
    for options in (StageOptions(), StageOptions((split,))):
        path = staged_path(choose(root, options), dest)
        if is_complete(path):
            _close_to_others(path, root)
            return path
    return None


def staged_path(excerpt: Excerpt, dest: str | os.PathLike[str]) -> Path:
    """Return the path of an excerpt's copy in `dest`: a whole copy of this user or root, or a path
    at which this user may make one.
    """
    path = Path(dest).absolute() / excerpt.folder_name
    if is_free(path) or is_complete(path):
        return path
    return path.with_name(f"{path.name}-{os.geteuid()}")


class _Staging:
    """Makes the copy; one process at a time does so."""

    def __init__(self, excerpt: Excerpt, target: Path, jobs: int, reporter: Reporter) -> None:
        self.excerpt = excerpt
        self.target = target
        self.work = target / _WORK
        self.jobs = jobs
        self.reporter = reporter
        self.rights = Rights(excerpt.source)
        # With a manifest the copy was whole once: files of the right size are right.
        self._was_whole = (target / NAME).exists()

    def run(self) -> None:
        """Copy the missing files, then write the derived ones, the manifest last."""
        for temp in self.work.glob("*.tmp"):  # of a run that was killed
            remove_if_there(temp)
        files = self.excerpt.files(self.target)
        with ThreadPoolExecutor(self.jobs) as threads:
            kept = list(threads.map(self._is_kept, files))
        others = OtherCopies(self.target)
        missing = [file for file, there in zip(files, kept, strict=True) if not there]
        needed = sum(file.size for file in missing if others.find(file) is None)
        self._check_space(needed, sum(file.size for file in files) - needed)
        missing = [
            file
            for file in missing
            if others.find(file) is None or not others.link(file, self.rights.allowed(file.source))
        ]
        self._copy(missing, sum(file.size for file in files) - sum(file.size for file in missing))
        self.excerpt.write_derived(self.target, self._put)
        with output_errors(self.target):
            # The work folder has the rights that the process's umask leaves.
            self.target.chmod(stat.S_IMODE(self.work.stat().st_mode) & 0o755)
            self.rights.narrow(self.target, self.excerpt.source)
            sync_folder(self.target)

    def _is_kept(self, file: FileCopy) -> bool:
        """Whether an earlier run copied this file."""
        try:
            status = file.target.lstat()
        except FileNotFoundError:
            return False
        is_whole = stat.S_ISREG(status.st_mode) and status.st_size == file.size
        # A file that was copied when the pack had other rights is copied anew.
        wider = stat.S_IMODE(status.st_mode) & ~(self.rights.allowed(file.source) | stat.S_IRWXU)
        if not is_whole or wider or not is_trusted(status):
            return False
        return self._was_whole or (bool(file.sha256) and sha256_file(file.target) == file.sha256)

    def _check_space(self, needed: int, there: int) -> None:
        space = free_space(self.target)
        if needed > space.free:
            raise OutputError(
                f"{self.target}: {needed:,} more bytes are needed, {space.free:,} are free"
                f" (limit: {space.limit}); {there:,} of {needed + there:,} are there",
                "free some, or stage less: one split, or a fraction",
            )

    def _copy(self, missing: list[FileCopy], there: int) -> None:
        total = there + sum(file.size for file in missing)

        def told(copied: int) -> None:
            self.reporter.progress(
                Progress(there + copied, total, read=copied, written=copied, fresh=copied)
            )

        self.reporter.note(
            f"staging {self.excerpt.source} to {self.target}: "
            f"{(total - there) / 1e6:,.1f} of {total / 1e6:,.1f} MB to copy"
        )
        copy_files(missing, self.work, self.jobs, told, self.rights.narrow)

    def _put(self, name: str, data: bytes) -> None:
        temp = write_temp(self.work, name, data)
        with output_errors(self.target / name):
            self.rights.narrow(temp, self.excerpt.source / NAME)
            move(temp, self.target / name)


def _prepare(dest: Path) -> None:
    """Make the folder for copies. If all users may write to it, only the sticky bit keeps others
    from replacing a copy's folder.
    """
    make_folder(dest.parent)
    with output_errors(dest), contextlib.suppress(FileExistsError):
        dest.mkdir(0o755)
    make_folder(dest)  # or say what is in the way
    with output_errors(dest):
        mode = dest.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise OutputError(
            f"{dest}: all users may remove each other's files there",
            f"stage into a folder of your own, or chmod o-w or +t {dest}",
        )


def _tell_of_rights(source: Path, target: Path, reporter: Reporter) -> None:
    with output_errors(source):
        shield = Rights(source).shield(target.parent)
    if shield is not None:
        reporter.warn(
            f"{target}: other users can read it, but not {source}, as {shield} keeps them out; "
            f"chmod o-rwx {source} keeps copies from them, too"
        )
    if target.name.endswith(f"-{os.geteuid()}"):
        reporter.note(f"another user has a copy of that name: staging to {target}")


def _make_own_folder(target: Path) -> None:
    """Make a copy's folder and its work folder; nobody else may look into them.

    Raises:
        OutputError: Another user has put something there, or may do so.
    """
    with output_errors(target):
        with contextlib.suppress(FileExistsError):
            target.mkdir(0o700)
        if not is_own(target):
            raise OutputError(
                f"{target}: belongs to another user, or others may write to it",
                "remove it, or stage into a folder of your own",
            )
        if (target / _WORK).is_symlink():
            raise OutputError(f"{target / _WORK}: is a link", "remove it")
        with contextlib.suppress(FileNotFoundError):  # by another process that gave up just now
            (target / _WORK).mkdir(exist_ok=True)


def _close_to_others(copy: Path, source: Path) -> None:
    """Remove the rights from a whole copy that the pack itself no longer grants."""
    if copy.lstat().st_uid == os.geteuid():
        with output_errors(copy):
            Rights(source).narrow(copy, source)


def _bytes_there(target: Path) -> int:
    """Return the number of bytes that another process has copied so far."""
    total = 0
    for folder in (target, target / _WORK):
        # A file may be renamed or removed at any moment.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            total += sum(entry.stat().st_size for entry in entries if entry.is_file())
    return total


def _remove_work(target: Path) -> None:
    """Remove the lock, by its holder; and the copy's folder, if nothing was copied."""
    remove_if_there(target / _WORK / _LOCK)
    # A waiting process may be looking into it, and will remove it; whole files stay.
    with contextlib.suppress(OSError):
        (target / _WORK).rmdir()
        target.rmdir()
