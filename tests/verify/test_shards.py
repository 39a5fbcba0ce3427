from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from packer.verify.shards import ListedFile, compare_file, name_file


def _listed(path: Path, content: bytes = b"content") -> ListedFile:
    return ListedFile(path, len(content), hashlib.sha256(content).hexdigest())


def test_how_a_file_differs(tmp_path: Path) -> None:
    path = tmp_path / "train-000000.tar"
    assert name_file(_listed(path)) == str(path)
    assert compare_file(_listed(path)) == "missing"
    path.write_bytes(b"content")
    assert compare_file(_listed(path)) == ""
    path.write_bytes(b"contend")
    assert compare_file(_listed(path)) == "its SHA-256 differs"
    path.write_bytes(b"more content")
    assert compare_file(_listed(path)) == "has 12 bytes, the manifest says 7"


def test_nothing_that_is_no_file_is_read(tmp_path: Path) -> None:
    """Reading a pipe would wait for ever, also where the manifest lists an empty file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "link", "folder"):
        assert compare_file(_listed(tmp_path / name, b"")) == "is not a regular file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "file").chmod(0)
    assert compare_file(_listed(tmp_path / "file")) == "cannot be read: Permission denied"
