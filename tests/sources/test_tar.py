from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import DamageError, SourceError
from packer.sources import _tar
from packer.sources._member import Member

FORMATS: dict[str, Literal[0, 1, 2]] = {
    "ustar": tarfile.USTAR_FORMAT,
    "gnu": tarfile.GNU_FORMAT,
    "pax": tarfile.PAX_FORMAT,
}


def read_members(path: Path) -> list[Member]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(_tar.members(fd, path))
    finally:
        os.close(fd)


def contents(path: Path) -> dict[bytes, bytes]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return {
            member.name: _tar.read_member(fd, member)
            for member in _tar.members(fd, path)
            if member.kind == "file"
        }
    finally:
        os.close(fd)


def write_tar(path: Path, entries: list[tarfile.TarInfo], **options: int | str) -> Path:
    with tarfile.open(path, "w", **options) as tar:  # type: ignore[call-overload]
        for entry in entries:
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return path


def entry_of(
    name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.linkname = size, kind, link
    return entry


def pax_record(key: str, value: str) -> bytes:
    """ "LENGTH KEY=VALUE" and a newline; LENGTH counts itself."""
    rest = f" {key}={value}\n".encode()
    size = len(rest)
    while size != len(rest) + len(str(size)):
        size = len(rest) + len(str(size))
    return str(size).encode() + rest


def with_records(path: Path, records: bytes, kind: bytes = b"x") -> Path:
    """An archive of one member, after a header with these records."""
    header = entry_of("header", len(records), kind)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(header, io.BytesIO(records))
        tar.addfile(entry_of("a/1.jpg", 3), io.BytesIO(b"xyz"))
    return path


@pytest.mark.parametrize("digits", [25, 4_000, 5_000, 100_000])
def test_numbers_of_any_length_in_pax_records(tmp_path: Path, digits: int) -> None:
    """int() refuses those of 4,300 digits. A time only tells whether a file changed."""
    path = with_records(tmp_path / "time.tar", pax_record("mtime", "9" * digits))
    [member] = read_members(path)
    assert (member.name, member.size) == (b"a/1.jpg", 3)
    path = with_records(tmp_path / "size.tar", pax_record("size", "9" * digits))
    with pytest.raises(DamageError, match=r"cut short: member 'a/1\.jpg'") as caught:
        read_members(path)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_million_bytes_of_pax_records(tmp_path: Path) -> None:
    """Their number does not count twice: with a copy of the rest for each, this took minutes."""
    records = pax_record("x", "") * 500_000 + pax_record("path", "b/2.jpg")
    [member] = read_members(with_records(tmp_path / "x.tar", records))
    assert member.name == b"b/2.jpg"


def test_pax_records_whose_length_is_wrong(tmp_path: Path) -> None:
    right = pax_record("path", "b/2.jpg")
    for wrong in (b"0 a=b\n", b"3 a=b\n", b"99 a=b\n", b"9" * 5000 + b" a=b\n", b"-9 a=b\n", b"x"):
        [member] = read_members(with_records(tmp_path / "x.tar", right + wrong + right))
        assert member.name == b"b/2.jpg"
        (tmp_path / "x.tar").unlink()


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_of_any_size_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(entry_of("header", 1 << 32, kind).tobuf(tarfile.USTAR_FORMAT))
    os.truncate(path, (1 << 32) + 4096)
    with pytest.raises(DamageError, match=r"a header of 4,294,967,296 bytes at byte 0"):
        read_members(path)


def test_times_and_sizes_in_base_256(tmp_path: Path) -> None:
    """GNU's numbers have up to 12 bytes."""
    for place, field in ((136, b"\x80" + b"\xff" * 11), (136, b"\xff" * 12)):
        header = bytearray(entry_of("a/1.jpg").tobuf(tarfile.USTAR_FORMAT))
        header[place : place + 12] = field
        _sign(header)
        (tmp_path / "x.tar").write_bytes(bytes(header) + bytes(1024))
        assert [member.name for member in read_members(tmp_path / "x.tar")] == [b"a/1.jpg"]


def _sign(header: bytearray) -> None:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(
        st.lists(st.text("aB .é日", min_size=1, max_size=45), min_size=1, max_size=3)
        .map("/".join)
        .filter(lambda name: len(name.encode()) < 100 and name.strip("/. ")),
        st.binary(max_size=1500),
        max_size=6,
    )
)
def test_reads_what_tarfile_writes(
    tmp_path_factory: pytest.TempPathFactory, form: int, files: dict[str, bytes]
) -> None:
    path = tmp_path_factory.mktemp("tar") / "x.tar"
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in files.items():
            tar.addfile(entry_of(name, len(content)), io.BytesIO(content))
    assert contents(path) == {name.encode(): content for name, content in files.items()}


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_long_names_times_and_links(tmp_path: Path, form: str) -> None:
    long = "d" * 120 + "/" + "f" * 200 + ".jpg"
    first = entry_of(long, 5)
    first.mtime = 1_700_000_000
    link = entry_of("s" * 150, 0, tarfile.SYMTYPE, "../" + long)
    hard = entry_of("hard", 0, tarfile.LNKTYPE, long)
    folder = entry_of("empty", 0, tarfile.DIRTYPE)
    path = write_tar(tmp_path / "x.tar", [first, link, hard, folder], format=FORMATS[form])
    one, two, three, four = read_members(path)
    assert (one.name, one.kind, one.size) == (long.encode(), "file", 5)
    assert one.stamp == 1_700_000_000 * 10**9
    assert (two.name, two.kind, two.target) == (b"s" * 150, "symlink", b"../" + long.encode())
    assert (three.kind, three.target) == ("hardlink", long.encode())
    assert (four.name.rstrip(b"/"), four.kind) == (b"empty", "folder")


def test_a_long_ustar_name_is_split(tmp_path: Path) -> None:
    name = "d" * 100 + "/" + "f" * 90 + ".jpg"
    path = write_tar(tmp_path / "x.tar", [entry_of(name, 1)], format=tarfile.USTAR_FORMAT)
    assert read_members(path)[0].name == name.encode()


def test_pax_records_of_fractions_and_all_members(tmp_path: Path) -> None:
    first, second = entry_of("a.jpg", 3), entry_of("b.jpg", 4)
    first.mtime = 12.25
    path = tmp_path / "x.tar"
    common = {"comment": "of all", "mtime": "7.5"}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=common) as tar:
        for entry in (first, second):
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    assert [member.stamp for member in read_members(path)] == [12_250_000_000, 7_500_000_000]


def test_special_files_carry_no_data(tmp_path: Path) -> None:
    kinds = (tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE)
    entries = [entry_of(f"{number}.jpg", 0, kind) for number, kind in enumerate(kinds)]
    path = write_tar(tmp_path / "x.tar", [*entries, entry_of("last.jpg", 9)])
    assert [member.kind for member in read_members(path)] == ["special"] * 3 + ["file"]


def test_a_member_of_more_than_8_gib(tmp_path: Path) -> None:
    """Its size is base-256 in GNU's format, a pax record in POSIX's; the file is sparse here."""
    size = 9 << 30
    for form in ("gnu", "pax"):
        path = tmp_path / f"{form}.tar"
        with path.open("wb") as file:
            file.write(entry_of("big.jpg", size).tobuf(FORMATS[form]))
            file.seek(size, os.SEEK_CUR)
            file.write(entry_of("next.jpg", 0).tobuf(FORMATS[form]) + bytes(1024))
        big, following = read_members(path)
        assert (big.size, following.name) == (size, b"next.jpg")


def test_numbers_before_1970(tmp_path: Path) -> None:
    entry = entry_of("a.jpg", 1)
    entry.mtime = -5
    path = write_tar(tmp_path / "x.tar", [entry], format=tarfile.GNU_FORMAT)
    assert read_members(path)[0].stamp == -5 * 10**9


@pytest.fixture
def three_members(tmp_path: Path) -> Path:
    return write_tar(tmp_path / "x.tar", [entry_of(f"{n}.jpg", 1000) for n in range(3)])


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 900, 1512, 1536, 2000, 4607, 4608])
def test_a_cut_tar_is_never_a_short_one(three_members: Path, keep: int) -> None:
    """Three members end at 4608, where the end mark starts; tarfile reads 3 of them, or fewer."""
    os.truncate(three_members, keep)
    with pytest.raises(DamageError, match=r"x\.tar: .*cut short"):
        read_members(three_members)


def test_the_cut_member_and_offset_are_named(three_members: Path) -> None:
    os.truncate(three_members, 2100)
    with pytest.raises(DamageError, match=r"'1\.jpg' at byte 1536 needs 1000 bytes.* ends at 2100"):
        read_members(three_members)


def test_one_zero_block_is_an_end(three_members: Path) -> None:
    os.truncate(three_members, 4608 + 512)
    assert len(read_members(three_members)) == 3


@pytest.mark.parametrize("where", [0, 124, 130, 148, 156, 257])
def test_a_damaged_header_is_named(three_members: Path, where: int) -> None:
    data = bytearray(three_members.read_bytes())
    data[1536 + where] ^= 0x15
    three_members.write_bytes(data)
    with pytest.raises(DamageError, match="no tar header at byte 1536: damaged"):
        read_members(three_members)


def test_joined_archives_are_refused(three_members: Path) -> None:
    """What follows the end mark would be lost silently."""
    three_members.write_bytes(three_members.read_bytes() * 2)
    with pytest.raises(SourceError, match="more behind its end mark at byte 4608"):
        read_members(three_members)


def sparse_gnu() -> bytes:
    header = bytearray(entry_of("s.jpg", 0).tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def sparse_pax() -> bytes:
    entry = entry_of("s.jpg", 0)
    entry.pax_headers = {"GNU.sparse.major": "1"}
    return entry.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.parametrize("make", [sparse_gnu, sparse_pax])
def test_sparse_members_are_refused(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(make() + bytes(1024))
    with pytest.raises(SourceError, match=r"'s\.jpg' is a sparse file .unpack"):
        read_members(path)
