"""Runs the conformance tests on the kinds of source that hold given files.

Listings with links, class numbers and packs are compared in test_agreement.py; the drawn sample,
which cannot hold given files, is tested in test_drawn.py.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from packer import registry
from packer.sources import load_kind
from packer.testing import SourceSuite


def write(folder: Path, files: Mapping[bytes, bytes]) -> Path:
    for path, content in files.items():
        full = folder / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content)
    return folder


def test_every_kind_has_a_suite() -> None:
    """A new file in packer/sources needs a class here, unless it makes its files itself."""
    classes = (value for value in globals().values() if isinstance(value, type))
    suites = {suite.NAME for suite in classes if issubclass(suite, SourceSuite)} - {""}
    kinds = {name: load_kind(name) for name in registry.own_names("sources")}
    assert suites == {name for name, kind in kinds.items() if not kind.MAKES_FILES}


class TestFolder(SourceSuite):
    NAME = "folder"

    def make(self, folder: Path, files: Mapping[bytes, bytes]) -> Path:
        return write(folder / "data", files)


class TestTar(SourceSuite):
    NAME = "archive"

    def make(self, folder: Path, files: Mapping[bytes, bytes]) -> Path:
        with tarfile.open(folder / "data.tar", "w") as archive:
            archive.add(write(folder / "data", files), "data")
        return folder / "data.tar"


class TestZip(SourceSuite):
    NAME = "archive"

    def make(self, folder: Path, files: Mapping[bytes, bytes]) -> Path:
        with zipfile.ZipFile(folder / "data.zip", "w") as archive:
            for path, content in files.items():
                archive.writestr(os.fsdecode(path), content)
        return folder / "data.zip"


class TestListed(SourceSuite):
    NAME = "listed"

    @pytest.fixture(autouse=True)
    def in_the_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Paths of a list lie in the working directory."""
        (tmp_path / "data").mkdir()
        monkeypatch.chdir(tmp_path / "data")

    def make(self, folder: Path, files: Mapping[bytes, bytes]) -> Path:
        write(folder / "data", files)
        (folder / "data.txt").write_bytes(b"\n".join(files))
        return folder / "data.txt"
