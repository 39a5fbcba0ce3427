"""Keep drawn pictures in one zip archive, so that they are drawn once; its checksums show damage.

The file's name holds a digest of all that determines the pictures' bytes, so another version of
packer or of the imaging libraries draws its own pictures.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from packer.files import fsio
from packer.imaging import libraries
from packer.sample import scenes, special

#: Earliest date that a zip archive can hold: equal pictures make equal files.
_DATE = (1980, 1, 1, 0, 0, 0)


def file_in(folder: Path, *code: str | None) -> Path:
    """Return the path of the archive in a folder.

    Args:
        folder: Folder of the user's caches.
        code: Further source files that determine the pictures.
    """
    digest = hashlib.sha256(json.dumps(libraries.versions(), sort_keys=True).encode())
    for source in (*code, scenes.__file__, special.__file__):
        if source is not None:
            digest.update(Path(source).read_bytes())
    return folder / f"sample-{digest.hexdigest()[:16]}.zip"


def keep(file: Path, pictures: Mapping[bytes, bytes]) -> None:
    """Write pictures to a file, by path. Several processes may do so at once.

    Raises:
        OutputError: The file system refused.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in pictures.items():
            archive.writestr(zipfile.ZipInfo(path.decode(), _DATE), data)
    fsio.make_folder(file.parent)
    fsio.publish_over(file.parent, file, content.getvalue())
    kept.cache_clear()


@cache
def kept(file: Path) -> Mapping[bytes, bytes]:
    """Return the pictures of an archive by path; none if it does not exist or is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {name.encode(): archive.read(name) for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}


def holds(file: Path, paths: Collection[bytes]) -> bool:
    """Return whether an archive has all of these pictures, undamaged."""
    return kept(file).keys() >= set(paths)
