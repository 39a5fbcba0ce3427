"""Folders and archives that the tests of sources share."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fixtures import PackFolder, WriteFiles


@pytest.fixture
def write_files() -> WriteFiles:
    """`write_files(folder, {path: content})`; a path that ends in "/" is an empty folder."""

    def write(folder: Path, files: Mapping[bytes, bytes]) -> Path:
        for path, content in files.items():
            full = folder / os.fsdecode(path)
            if path.endswith(b"/"):
                full.mkdir(parents=True, exist_ok=True)
            else:
                full.parent.mkdir(parents=True, exist_ok=True)
                with full.open("xb") as file:
                    file.write(content)
        return folder

    return write


@pytest.fixture
def make_tar() -> PackFolder:
    """`make_tar(folder, archive)`: what is in a folder as a tar file, in a mixed-up order."""

    def make(folder: Path, archive: Path) -> Path:
        names = sorted(os.fsencode(path) for path in folder.rglob("*"))
        with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
            for full in names[::2] + names[1::2]:
                relative = os.path.relpath(full, os.fsencode(folder))
                tar.add(os.fsdecode(full), os.fsdecode(b"./" + relative), recursive=False)
        return archive

    return make


@pytest.fixture
def make_zip() -> PackFolder:
    """`make_zip(folder, archive)`: what is in a folder as a zip file, links as links."""

    def make(folder: Path, archive: Path) -> Path:
        with zipfile.ZipFile(archive, "w") as zipped:
            for number, full in enumerate(sorted(folder.rglob("*"))):
                raw = os.fsencode(full.relative_to(folder))
                # Code page 437 gives back any bytes that are no UTF-8.
                is_folder = full.is_dir() and not full.is_symlink()
                name = raw.decode("cp437") + ("/" if is_folder else "")
                info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
                if any(byte > 127 for byte in raw):
                    info = _RawName(name, (2020, 1, 2, 3, 4, 6))
                info.compress_type = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 2]
                info.create_system = 3
                if full.is_symlink():
                    info.external_attr = (stat.S_IFLNK | 0o777) << 16
                    zipped.writestr(info, os.fsencode(full.readlink()))
                elif is_folder:
                    zipped.writestr(info, b"")
                else:
                    info.external_attr = (stat.S_IFREG | 0o644) << 16
                    zipped.writestr(info, full.read_bytes())
        return archive

    return make


class _RawName(zipfile.ZipInfo):
    """Stores its name as code page 437, where zipfile would say UTF-8."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode("cp437"), self.flag_bits
