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


def _at(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """Bytes of every header with this signature replaced."""
    out, place = bytearray(data), data.find(signature)
    while place >= 0:
        out[place + offset : place + offset + len(value)] = value
        place = data.find(signature, place + 1)
    return bytes(out)


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"


def test_a_version_that_nobody_knows_is_said(two_members: Path) -> None:
    data = _at(two_members.read_bytes(), CENTRAL, 6, b"\x63\0")
    two_members.write_bytes(_at(data, LOCAL, 4, b"\x63\0"))
    with pytest.raises(SourceError, match=r"x\.zip: zip file version 9\.9"):
        read_members(two_members)


@pytest.mark.parametrize("date", [b"\0\0", b"\xff\xff", b"\xe1\xff", b"\x1f\0"])
def test_dates_that_are_none(two_members: Path, date: bytes) -> None:
    data = _at(two_members.read_bytes(), CENTRAL, 14, date)
    two_members.write_bytes(_at(data, CENTRAL, 12, b"\xff\xff"))
    assert [member.size for member in read_members(two_members)] == [1200, 1400]


@pytest.mark.parametrize(
    ("signature", "offset", "value"),
    [
        (CENTRAL, 42, b"\xff\xff\xff\x7f"),  # where a member begins
        (CENTRAL, 20, b"\xff\xff\xff\xff"),  # sizes that zip64's extra field would hold
        (CENTRAL, 24, b"\xff\xff\xff\xff"),
        (CENTRAL, 28, b"\xff\xff"),  # length of a name
        (CENTRAL, 30, b"\x03\0"),  # length of an extra field
        (CENTRAL, 8, b"\0\x08"),  # the name is UTF-8
        (END, 16, b"\xff\xff\xff\xff"),  # where the directory begins
        (END, 12, b"\xff\xff\xff\x7f"),
        (END, 10, b"\xff\xff"),
        (END, 20, b"\xff\xff"),  # length of the comment
    ],
)
def test_fields_that_lead_nowhere(
    two_members: Path, signature: bytes, offset: int, value: bytes
) -> None:
    """One line, or the members as they are; nothing else."""
    two_members.write_bytes(_at(two_members.read_bytes(), signature, offset, value))
    _right_or_one_line(two_members)


def _right_or_one_line(path: Path) -> None:
    try:
        members = read_members(path)
    except (DamageError, SourceError) as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return
    for member in members:
        try:
            read_one(path, member)
        except ImageError as error:
            assert error.reason == "unreadable"


@pytest.mark.parametrize("extra", [b"\1\0", b"\1\0\x10\0", b"\1\0\x04\0abcd", b"\1\0\xff\xff12"])
def test_extra_fields_that_are_cut_short(tmp_path: Path, extra: bytes) -> None:
    """Zip64's, of a member whose sizes are said to be there."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("1.jpg")
        info.extra = extra
        archive.writestr(info, b"x")
    path.write_bytes(_at(path.read_bytes(), CENTRAL, 24, b"\xff\xff\xff\xff"))
    _right_or_one_line(path)


def test_a_link_is_as_long_as_a_path_at_most(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, target in (("a.jpg", b"b" * 4096), ("c.jpg", b"\0" * (64 << 20))):
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o644) << 16
            archive.writestr(info, target, zipfile.ZIP_DEFLATED)
    assert [member.kind for member in read_members(path)] == ["symlink", "special"]


def _windows_zip(path: Path, names: list[str], system: int = 0) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            info.create_system = system
            archive.writestr(info, b"x")
    return path


def test_backslashes_are_separators_where_no_slash_is(tmp_path: Path) -> None:
    """As .NET wrote them; elsewhere, a name may have one."""
    names = ["data\\cat\\1.jpg", "data\\dog\\"]
    one, two = read_members(_windows_zip(tmp_path / "net.zip", names))
    assert (one.name, one.kind) == (b"data/cat/1.jpg", "file")
    assert (two.name, two.kind) == (b"data/dog/", "folder")
    [unix] = read_members(_windows_zip(tmp_path / "unix.zip", ["a\\b.jpg"], 3))
    assert unix.name == b"a\\b.jpg"
    mixed = read_members(_windows_zip(tmp_path / "mixed.zip", ["a\\b.jpg", "c/1.jpg"]))
    assert mixed[0].name == b"a\\b.jpg"


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
