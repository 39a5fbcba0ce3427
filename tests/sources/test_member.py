from __future__ import annotations

import os
from pathlib import Path

import pytest

from packer.errors import ImageError
from packer.sources._member import NUMBERS, Member, pread, read_whole


def test_pread_joins_short_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network disks, and reads of more than 2 GiB, may bring less than asked for."""
    path = tmp_path / "data"
    path.write_bytes(bytes(range(100)))
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: real(fd, min(size, 7), offset))
    with path.open("rb") as file:
        assert pread(file.fileno(), 50, 20) == bytes(range(20, 70))
        assert pread(file.fileno(), 50, 90) == bytes(range(90, 100))
        assert read_whole(file.fileno(), 10, 90) == bytes(range(90, 100))
        with pytest.raises(ImageError, match="ends within it, at byte 100"):
            read_whole(file.fileno(), 11, 90)


def test_numbers_come_back_as_a_member() -> None:
    member = Member(b"a.jpg", "file", 1, 2, 3, 4, 5, 6)
    assert len(member.numbers) == NUMBERS
    assert Member(b"a.jpg", "file", *member.numbers) == member
