"""A pack, or an excerpt, copied to a disk or to memory of this machine, once for all who ask.

    DEST/NAME-<id>/              the copy, a pack like any other once its manifest is there
    DEST/NAME-<id>/.staging/     lock and temp files while it is made

The id is a digest of the manifest and of what is taken, so a pack that was made anew is staged anew
and one of the same name is never mistaken for it. Whoever holds the lock copies; the others wait,
and go on with the copying if that process dies.
"""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packer.errors import OutputError
from packer.fsio import (
    make_folder,
    output_errors,
    remove_if_there,
    sha256_file,
    sync_folder,
    write_temp,
)
from packer.manifest import NAME
from packer.naming import move
from packer.reader.claim import try_claim
from packer.reader.copying import FileCopy, copy_files
from packer.reader.excerpt import Excerpt, StageOptions, choose
from packer.reader.space import free_space
from packer.reader.staged import OtherCopies, is_complete, is_own
from packer.reporting import Progress, Reporter

_WORK = ".staging"
_LOCK = "lock"
#: Seconds between two looks at whether another process has finished.
_LOOK_SECONDS = 0.2


def stage_pack(
    root: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: StageOptions | None = None,
    reporter: Reporter | None = None,
) -> Path:
    """Copy a pack to a folder of this machine, unless it is there; any number of processes may ask.

    What an earlier run has copied is kept; shards that the folder has in another excerpt of the
    same pack are linked, not copied. Every shard's SHA-256 is compared while it is copied.

    Args:
        root: The pack.
        dest: A folder on a local disk or in memory; made if it is not there.
        options: What to take.
        reporter: Told the bytes there so far.

    Returns:
        The copy: a folder in `dest`.

    Raises:
        SourceError: No pack there, or an unfinished one.
        UsageError: It has no such split; a fraction that cannot be.
        DamageError: A file of the pack is missing or damaged; it is not in the copy.
        OutputError: Not enough room, with the numbers; or `dest` cannot be written to.
        PackerError: The pack cannot be read.
    """
    options, reporter = options or StageOptions(), reporter or Reporter()
    excerpt = choose(Path(root).absolute(), options)
    target = staged_path(excerpt, dest)
    make_folder(target.parent)
    there = -1  # bytes that another process has copied so far
    while not is_complete(target):
        make_folder(target / _WORK)
        _refuse_strangers(target)
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
    _refuse_strangers(target)
    return target


def stage_split(root: Path, dest: str | os.PathLike[str], split: str) -> Path:
    """A copy of one split in `dest`: that of the whole pack, if it is there, else one of its own.

    Raises:
        PackerError: As `stage_pack`.
    """
    return find_staged(root, dest, split) or stage_pack(root, dest, StageOptions((split,)))


def find_staged(root: Path, dest: str | os.PathLike[str], split: str) -> Path | None:
    """A complete copy in `dest` that has all of a split.

    Raises:
        PackerError: As `choose`.
    """
    for options in (StageOptions(), StageOptions((split,))):
        path = staged_path(choose(root, options), dest)
        if is_complete(path) and is_own(path):
            return path
    return None


def staged_path(excerpt: Excerpt, dest: str | os.PathLike[str]) -> Path:
    """Where an excerpt is staged in the folder `dest`."""
    return Path(dest).absolute() / excerpt.folder_name


class _Staging:
    """Makes the copy; one process at a time does."""

    def __init__(self, excerpt: Excerpt, target: Path, jobs: int, reporter: Reporter) -> None:
        self.excerpt = excerpt
        self.target = target
        self.work = target / _WORK
        self.jobs = jobs
        self.reporter = reporter
        # With a manifest the copy was whole once: files of the right size are right.
        self._was_whole = (target / NAME).exists()

    def run(self) -> None:
        """Copy what is missing, then write what follows from it, the manifest last."""
        for temp in self.work.glob("*.tmp"):  # of a run that was killed
            remove_if_there(temp)
        files = self.excerpt.files(self.target)
        with ThreadPoolExecutor(self.jobs) as threads:
            kept = list(threads.map(self._is_kept, files))
        others = OtherCopies(self.target)
        missing = [file for file, there in zip(files, kept, strict=True) if not there]
        needed = sum(file.size for file in missing if others.find(file) is None)
        self._check_space(needed, sum(file.size for file in files) - needed)
        missing = [file for file in missing if not others.link(file)]
        self._copy(missing, sum(file.size for file in files) - sum(file.size for file in missing))
        self.excerpt.write_derived(self.target, self._put)
        with output_errors(self.target):
            sync_folder(self.target)

    def _is_kept(self, file: FileCopy) -> bool:
        """Whether an earlier run copied this file."""
        try:
            if file.target.stat().st_size != file.size:
                return False
        except FileNotFoundError:
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
        copy_files(missing, self.work, self.jobs, told)

    def _put(self, name: str, data: bytes) -> None:
        temp = write_temp(self.work, name, data)
        with output_errors(self.target / name):
            move(temp, self.target / name)


def _refuse_strangers(target: Path) -> None:
    """In a folder that all may write to, another user's copy may hold anything."""
    if not is_own(target):
        raise OutputError(
            f"{target}: belongs to another user", "stage into a folder of your own below it"
        )


def _bytes_there(target: Path) -> int:
    """Bytes that another process has copied so far."""
    total = 0
    for folder in (target, target / _WORK):
        # What is there now may have its final name, or be gone, the next moment.
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            total += sum(entry.stat().st_size for entry in entries if entry.is_file())
    return total


def _remove_work(target: Path) -> None:
    """Remove the lock, by its holder; and the copy's folder, if nothing was copied."""
    remove_if_there(target / _WORK / _LOCK)
    # Somebody who waits may look into it just now, and will remove it; whole files stay.
    with contextlib.suppress(OSError):
        (target / _WORK).rmdir()
        target.rmdir()
