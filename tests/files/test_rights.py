from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from packer.files.rights import Rights, is_trusted

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def copied(tmp_path: Path, mode: int, source_mode: int) -> int:
    source, copy = tmp_path / "pack" / "file", tmp_path / "copy"
    copy.write_bytes(b"")
    copy.chmod(mode)
    source.chmod(source_mode)
    Rights(tmp_path / "pack").narrow(copy, source)
    return copy.stat().st_mode & 0o7777


@pytest.fixture(autouse=True)
def _pack(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir(0o755)
    (tmp_path / "pack" / "file").write_bytes(b"")


@pytest.mark.parametrize(
    ("mode", "source", "expected"),
    [
        (0o644, 0o600, 0o600),
        (0o644, 0o640, 0o640),
        (0o600, 0o644, 0o600),
        (0o666, 0o666, 0o644),
        (0o664, 0o444, 0o444),
        (0o644, 0o604, 0o604),
    ],
)
def test_rights_only_go(tmp_path: Path, mode: int, source: int, expected: int) -> None:
    assert copied(tmp_path, mode, source) == expected


@as_root
def test_the_group_of_a_copy_is_the_packs(tmp_path: Path) -> None:
    for path in (tmp_path / "pack", tmp_path / "pack" / "file"):
        os.chown(path, -1, 12345)
    assert copied(tmp_path, 0o640, 0o640) == 0o640
    assert (tmp_path / "copy").stat().st_gid == 12345


@as_root
def test_a_group_that_cannot_be_given_may_do_what_others_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy then belongs to a group that may have more members."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    for path in (tmp_path / "pack", tmp_path / "pack" / "file"):
        os.chown(path, -1, 12345)
    monkeypatch.setattr(os, "chown", refuse)
    assert copied(tmp_path, 0o640, 0o640) == 0o600
    assert copied(tmp_path, 0o644, 0o644) == 0o644


def test_an_access_control_list_gives_the_group_nothing(tmp_path: Path) -> None:
    """Its mask stands in the group's place in the mode."""
    source = tmp_path / "pack" / "file"
    entries = [(1, 6, -1), (2, 4, 12345), (4, 0, -1), (16, 4, -1), (32, 0, -1)]
    value = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, perm, number & 0xFFFFFFFF) for tag, perm, number in entries
    )
    source.chmod(0o640)
    try:
        os.setxattr(source, "system.posix_acl_access", value)
    except (OSError, AttributeError):
        pytest.skip("no access control lists here")
    copy = tmp_path / "copy"
    copy.write_bytes(b"")
    copy.chmod(0o644)
    assert source.stat().st_mode & 0o777 == 0o640
    Rights(tmp_path / "pack").narrow(copy, source)
    assert copy.stat().st_mode & 0o777 == 0o600


def test_what_others_may_write_to_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "pack" / "file"
    for mode, trusted in ((0o600, True), (0o644, True), (0o664, False), (0o646, False)):
        path.chmod(mode)
        assert is_trusted(path.stat()) == trusted
