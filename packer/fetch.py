"""`packer fetch` as a function: download a recipe's archives and check them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from packer.errors import DamageError, OutputError, SourceError
from packer.files.fsio import READ_BYTES, make_folder, publish
from packer.files.paths import given_path
from packer.recipe import Archive, Recipe
from packer.recipe import load as load_recipe
from packer.reporting import Progress, Reporter
from packer.sources import load_kind
from packer.web.download import Patience, download, forget, lock_part

__all__ = ["Patience", "fetch_dataset"]


def fetch_dataset(
    recipe: Recipe | str,
    folder: str | os.PathLike[str],
    *,
    reporter: Reporter | None = None,
    patience: Patience | None = None,
) -> Path:
    """Download a recipe's archives into `folder`; a sample that packer draws is written there.

    An interrupted download continues; a file that exists and is right is not downloaded again. A
    file gets its final name only after its checksums were verified.

    Args:
        recipe: What to download: a recipe's name, a recipe file, or an open recipe.
        folder: Folder of the downloads; created if it does not exist.
        reporter: Called with progress as bytes arrive, one archive after the other.
        patience: How long to retry when a server fails.

    Returns:
        The archive; the folder, if there are several; the folder of a drawn sample.

    Raises:
        SourceError: The recipe has no address; the message says how to get the data.
        DamageError: A downloaded or existing file differs from the recipe's size or checksums.
        OutputError: Not enough space, or the folder cannot be written.
        PackerError: No address works.
    """
    if isinstance(recipe, str):
        recipe = load_recipe(recipe)
    folder, reporter = given_path(folder, "folder"), reporter or Reporter()
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
        _fetch_archive(archive, folder, reporter, patience or Patience())
        for archive in recipe.archives
    ]
    return got[0] if len(got) == 1 else folder


def _fetch_archive(archive: Archive, folder: Path, reporter: Reporter, patience: Patience) -> Path:
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
            reporter.progress(Progress(done=done, total=total or done, read=done, fresh=done))

        joined = download(archive.urls, part, archive.bytes, patience, report)
        wrong = _difference(part, archive)
        if wrong and joined:
            # Bytes of several attempts may be of different versions: download again in one attempt.
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
    """How a file differs from the recipe's size and checksums; "" if it does not."""
    size = path.stat().st_size
    if archive.bytes is not None and size != archive.bytes:
        return f"it has {size} bytes, should have {archive.bytes}"
    # Servers publish MD5, which detects accidents; SHA-256 detects manipulation, too.
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
