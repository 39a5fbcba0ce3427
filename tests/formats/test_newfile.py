from __future__ import annotations

import os
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.formats._newfile import NewFile


def test_writes_anywhere(tmp_path: Path) -> None:
    file = NewFile(tmp_path / "new")
    file.write(b"end", 5)
    file.write(memoryview(b"start"), 0)
    assert (file.size(), file.read(4, 6)) == (8, b"nd")
    file.truncate(10)
    file.close()
    assert (tmp_path / "new").read_bytes() == b"startend\0\0"
    file.abort()  # after close: nothing happens


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call writes at most 2 GiB on Linux, and less where a signal strikes."""
    whole = os.pwrite
    calls = []

    def short(fd: int, data: memoryview, offset: int) -> int:
        calls.append(len(data))
        return whole(fd, data[:3], offset)

    file = NewFile(tmp_path / "new")
    monkeypatch.setattr(os, "pwrite", short)
    file.write(b"0123456789", 2)
    file.close()
    assert (tmp_path / "new").read_bytes() == b"\0\x000123456789"
    assert calls == [10, 7, 4, 1]


def test_failed_close_closes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    really_close = os.close

    def refuse(fd: int) -> None:
        raise OSError(122, "Disk quota exceeded")

    def close(fd: int) -> None:
        closed.append(fd)
        really_close(fd)

    file = NewFile(tmp_path / "new")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        patch.setattr(os, "close", close)
        with pytest.raises(OutputError, match="new: Disk quota exceeded"):
            file.close()
    assert len(closed) == 1
    file.abort()
