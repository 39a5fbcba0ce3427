from __future__ import annotations

import os
from pathlib import Path

import pytest

from packer.files.regular import NotRegular
from packer.pack import mapping
from packer.pack import shardfile as opened
from packer.pack.shardfile import OpenShard


def test_reads_what_is_there(tmp_path: Path) -> None:
    data = os.urandom(10_000)
    (tmp_path / "shard").write_bytes(data)
    (tmp_path / "link").symlink_to("shard")
    for name in ("shard", "link"):
        file = OpenShard(tmp_path / name)
        buffer = bytearray(100)
        assert file.read_into(50, memoryview(buffer)) == 100 and buffer == data[50:150]
        assert file.read_into(9950, memoryview(buffer)) == 50 and buffer[:50] == data[9950:]
        assert file.read_into(20_000, memoryview(buffer)) == 0
        assert file.is_cached(0, 10_000)
        file.advise(0, 10_000)
        file.expect_no_order()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shard")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotRegular, match="is not a regular file"):
        OpenShard(tmp_path / "shard")
    assert len(os.listdir("/proc/self/fd")) == before


def test_when_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Always where that costs nothing, else now and then."""
    (tmp_path / "shard").touch()
    for kind, expected in (("ext4", True), ("tmpfs", True), ("nfs4", False), ("", False)):
        monkeypatch.setattr(mapping, "file_system", lambda device, kind=kind: kind)
        monkeypatch.setattr(mapping, "in_memory", lambda device, kind=kind: kind == "tmpfs")
        monkeypatch.setattr(opened, "LOOK_SECONDS", 3600.0)
        file = OpenShard(tmp_path / "shard")
        assert file.is_due() and file.is_due() == expected
