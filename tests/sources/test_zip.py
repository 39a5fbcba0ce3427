from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from packer.errors import DamageError, ImageError, SourceError
from packer.sources import _zip
from packer.sources._member import Member


def read_members(path: Path) -> list[Member]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(_zip.members(fd, path))
    finally:
        os.close(fd)


def read_one(path: Path, member: Member) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return _zip.read_member(fd, member)
    finally:
        os.close(fd)


@pytest.fixture
def two_members(tmp_path: Path) -> Path:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        stored = zipfile.ZipInfo("stored.jpg", (1999, 12, 31, 23, 59, 58))
        archive.writestr(stored, b"stored bytes" * 100)
        archive.writestr("deflated.jpg", b"deflated bytes" * 100, zipfile.ZIP_DEFLATED)
    return path


def test_reads_stored_and_deflated(two_members: Path) -> None:
    stored, deflated = read_members(two_members)
    assert (stored.name, stored.size, stored.stored) == (b"stored.jpg", 1200, 1200)
    assert stored.stamp == 946_684_798 * 10**9
    assert deflated.size == 1400 > deflated.stored
    assert read_one(two_members, stored) == b"stored bytes" * 100
    assert read_one(two_members, deflated) == b"deflated bytes" * 100


def test_folders_links_and_fifos(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/", b"")
        for name, kind in (("a/link.jpg", stat.S_IFLNK), ("a/pipe.jpg", stat.S_IFIFO)):
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, (kind | 0o644) << 16
            archive.writestr(info, b"../b.jpg")
    folder, link, pipe = read_members(path)
    assert (folder.name, folder.kind) == (b"a/", "folder")
    assert (link.kind, link.target) == ("symlink", b"../b.jpg")
    assert pipe.kind == "special"


def test_zip64_members(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(100):
            with archive.open(f"{number}.jpg", "w", force_zip64=True) as member:
                member.write(b"%d" % number)
    members = read_members(path)
    assert [read_one(path, member) for member in members] == [b"%d" % n for n in range(100)]


@pytest.mark.parametrize("keep", [0, 50, 1500, -30, -1])
def test_a_cut_zip_is_damage(two_members: Path, keep: int) -> None:
    os.truncate(two_members, keep % two_members.stat().st_size)
    with pytest.raises(DamageError, match=r"x\.zip: damaged or cut short"):
        read_members(two_members)


def test_damaged_data_is_a_line_of_the_ledger(two_members: Path) -> None:
    stored, deflated = read_members(two_members)
    data = bytearray(two_members.read_bytes())
    data[stored.start + 100] ^= 1
    data[deflated.start + 45] ^= 0xFF
    two_members.write_bytes(data)
    with pytest.raises(ImageError, match="CRC-32 differs"):
        read_one(two_members, stored)
    with pytest.raises(ImageError, match="damaged in the archive"):
        read_one(two_members, deflated)
    with pytest.raises(ImageError, match="no zip header at byte 7"):
        read_one(two_members, stored._replace(start=7))


def test_a_bomb_is_not_inflated_beyond_its_stated_size(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.jpg", bytes(10_000_000))
    [member] = read_members(path)
    with pytest.raises(ImageError, match="CRC-32 differs"):
        read_one(path, member._replace(size=10))


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.jpg", b"data")
    with pytest.raises(SourceError, match=r"'x\.jpg' is of method 14"):
        read_members(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.jpg", b"data")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1  # as if encrypted
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"'x\.jpg' is encrypted"):
        read_members(path)


def test_a_date_that_is_none_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.jpg", (1980, 1, 1, 0, 0, 0)), b"1")
    data = path.read_bytes()
    assert data.count(b"\x21\0") == 2  # the first of January 1980, in both headers
    path.write_bytes(data.replace(b"\x21\0", b"\0\0"))
    [member] = read_members(path)
    assert (member.stamp, read_one(path, member)) == (0, b"1")
