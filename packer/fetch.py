"""`packer fetch` as a function: get a recipe's archives, whole and right."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from packer.errors import DamageError, OutputError, SourceError
from packer.files.fsio import READ_BYTES, make_folder, publish
from packer.recipe import Archive, Recipe
from packer.sources import load_kind
from packer.web.download import Patience, download, forget, lock_part

#: Name of the file, bytes so far, bytes in all (None: not known).
Progress = Callable[[str, int, "int | None"], None]


def fetch(
    recipe: Recipe,
    folder: Path,
    *,
    progress: Progress | None = None,
    patience: Patience | None = None,
) -> Path:
    """Download a recipe's archives into `folder`; a sample that packer draws is written there.

    A download that was cut goes on; what is there already and right is not fetched again. A file
    has its final name only once its checksums agree.

    Args:
        recipe: What to get.
        folder: Made if it is not there.
        progress: Called as bytes arrive.
        patience: With a server that fails.

    Returns:
        The archive; the folder, if there are several; the folder of a drawn sample.

    Raises:
        SourceError: The recipe has no address to download from; says how to get the data.
        DamageError: What was downloaded, or was there already, is not what the recipe says.
        OutputError: Not enough space, or the folder cannot be written.
        PackerError: No address works.
    """
    make_folder(folder)
    if recipe.source and (kind := load_kind(recipe.source)).MAKES_FILES:
        target = folder / (recipe.local_names or (recipe.name,))[0]
        kind.write_tree(target)
        return target
    if not recipe.archives:
        raise SourceError(
            f"{recipe.name}: nothing to download from",
            recipe.obtain or "its recipe has no archives",
        )
    got = [
        _fetch_archive(archive, folder, progress or _silent, patience or Patience())
        for archive in recipe.archives
    ]
    return got[0] if len(got) == 1 else folder


def _fetch_archive(archive: Archive, folder: Path, progress: Progress, patience: Patience) -> Path:
    final = folder / archive.name
    if final.exists():
        if wrong := _difference(final, archive):
            raise DamageError(
                f"{final}: is there already, but {wrong}", "move it away, fetch again"
            )
        return final
    part = folder / f"{archive.name}.part"
    with lock_part(part):
        _check_space(archive, part)

        def report(done: int, total: int | None) -> None:
            progress(archive.name, done, total)

        joined = download(archive.urls, part, archive.bytes, patience, report)
        wrong = _difference(part, archive)
        if wrong and joined:
            # Bytes of several tries may be of different versions: once more in one go.
            forget(part)
            download(archive.urls, part, archive.bytes, patience, report)
            wrong = _difference(part, archive)
        if wrong:
            forget(part)
            raise DamageError(f"{archive.urls[0]}: {wrong}; nothing of it was kept")
        published = publish(part, final)
        forget(part)
    if not published and (wrong := _difference(final, archive)):
        raise DamageError(f"{final}: appeared meanwhile, but {wrong}", "move it away, fetch again")
    return final


def _difference(path: Path, archive: Archive) -> str:
    """How a file differs from what the recipe says; "" if it does not."""
    size = path.stat().st_size
    if archive.bytes is not None and size != archive.bytes:
        return f"it has {size} bytes, should have {archive.bytes}"
    # The servers' lists give MD5; it guards against accidents, SHA-256 against more.
    digests = {"md5": hashlib.md5(usedforsecurity=False), "sha256": hashlib.sha256()}
    wanted = {"md5": archive.md5, "sha256": archive.sha256}
    digests = {name: digest for name, digest in digests.items() if wanted[name]}
    with path.open("rb", buffering=0) as file:
        while data := file.read(READ_BYTES):
            for digest in digests.values():
                digest.update(data)
    for name, digest in digests.items():
        if digest.hexdigest() != wanted[name]:
            return f"its {name} is {digest.hexdigest()}, should be {wanted[name]}"
    return ""


def _check_space(archive: Archive, part: Path) -> None:
    if archive.bytes is None:
        return
    needed = archive.bytes - part.stat().st_size
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise OutputError(
            f"{part.parent}: {archive.name} needs {needed:,} more bytes, only {free:,} are free",
            "free some space, or fetch into another folder",
        )


def _silent(name: str, done: int, total: int | None) -> None:
    """For callers who do not want to hear."""
