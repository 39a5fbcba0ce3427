"""Move damaged files of a pack aside, and make them again.

Nothing is removed. A new file gets its name only if it has the digest in the manifest
(`packer.packing.restoring`), so a repaired pack equals the original one byte by byte.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from packer.convert import convert_dataset
from packer.errors import MissingShards, OtherPack, UsageError
from packer.files.fsio import make_folder, output_errors, sha256_file
from packer.files.regular import NotRegular, open_regular
from packer.input import Input
from packer.pack.manifest import Manifest
from packer.packing.finish import tidy_complete
from packer.packing.lock import Lock
from packer.packing.restoring import find_losses, move_aside, restore_beside
from packer.packing.shards.shard import WORK_FOLDER
from packer.reporting import Reporter
from packer.verify.against import options_of


@dataclass(frozen=True)
class Repair:
    """Result of a repair.

    Attributes:
        restored: Files that were made again, by name.
        missing: Files that only the source can give, by name: `packer convert` makes them again.
    """

    restored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def repair_pack(
    folder: Path, manifest: Manifest, damaged: Collection[str], reporter: Reporter
) -> Repair:
    """Move damaged files aside, and make again those that are derived from others.

    Args:
        folder: The pack.
        manifest: Its manifest.
        damaged: Names of files that differ from it.
        reporter: Called with the moved files and their new names.

    Raises:
        UsageError: A file that was made again does not have the digest in the manifest.
        OutputError: The file system refused.
        InUse: Another run is at work there.
    """
    make_folder(folder / WORK_FOLDER)
    with Lock(folder / WORK_FOLDER, None, note=reporter.note) as lock:
        # Another run may have repaired some meanwhile.
        wrong = {name for name in damaged if not _is_right(folder / name, manifest)}
        lock.confirm()
        move_aside(folder, wrong, reporter)
    lost = find_losses(folder, manifest)
    if lost:
        try:
            return Repair(restored=restore_beside(folder, manifest, reporter).names)
        except MissingShards:
            lost = find_losses(folder, manifest)
    tidy_complete(folder)
    return Repair(missing=tuple(lost))


def make_missing(
    folder: Path,
    manifest: Manifest,
    source: Input,
    reporter: Reporter,
    *,
    jobs: int | None,
    backend: str,
) -> Repair:
    """Make the files again that need the source, after `repair_pack`.

    Args:
        folder: The pack.
        manifest: Its manifest.
        source: The source that it was made from.
        reporter: Called with progress and notes.
        jobs: Worker processes; None = the cores this process may use.
        backend: loky, threading, sequential.

    Raises:
        UsageError: The source has changed, or the pack was not made from a source.
        PackerError: As `convert_dataset`.
    """
    options = replace(options_of(folder, manifest), jobs=jobs, backend=backend)
    try:
        return Repair(convert_dataset(source, folder, options, reporter=reporter).restored)
    except OtherPack as error:
        hint = "give the source as it was when the pack was made" if manifest.listing_sha256 else ""
        raise UsageError(error.message, hint or manifest.repair) from None


def _is_right(path: Path, manifest: Manifest) -> bool:
    """Return whether a file matches the manifest; a missing one need not be moved."""
    record = manifest.all_files().get(path.name)
    with output_errors(path):
        try:
            with open_regular(path, follow=True):
                return record is not None and sha256_file(path) == record.sha256
        except FileNotFoundError:
            return True
        except NotRegular:
            return False
