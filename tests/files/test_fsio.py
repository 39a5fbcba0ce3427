import errno
import os
from pathlib import Path

import pytest

from packer.errors import OutputError
from packer.files import fsio


def test_publish_gives_the_final_name_and_leaves_no_temp(tmp_path: Path) -> None:
    temp = fsio.write_temp(tmp_path, "a", b"one")
    assert fsio.publish(temp, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_publish_never_overwrites_and_the_first_wins(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    temp = fsio.write_temp(tmp_path, "a", b"second")
    assert not fsio.publish(temp, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"first"
    assert temp.read_bytes() == b"second"


def test_publish_finds_its_own_retransmitted_success(tmp_path: Path) -> None:
    """An NFS client may send a link call again whose answer was lost: EEXIST is then success."""
    temp = fsio.write_temp(tmp_path, "a", b"one")
    os.link(temp, tmp_path / "a")
    assert fsio.publish(temp, tmp_path / "a")
    assert not temp.exists()


def test_publish_bytes_accepts_equal_content_and_names_other_content(tmp_path: Path) -> None:
    final = tmp_path / "a"
    fsio.publish_bytes(tmp_path, final, b"one")
    fsio.publish_bytes(tmp_path, final, b"one")
    with pytest.raises(OutputError, match="already there with other content"):
        fsio.publish_bytes(tmp_path, final, b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_publish_over_replaces_other_content_only(tmp_path: Path) -> None:
    final = tmp_path / "a"
    fsio.publish_over(tmp_path, final, b"one")
    inode = final.stat().st_ino
    fsio.publish_over(tmp_path, final, b"one")
    assert final.stat().st_ino == inode
    fsio.publish_over(tmp_path, final, b"two")
    assert final.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_an_error_that_shows_only_at_fsync_is_reported_and_leaves_no_temp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A full NFS server accepts every write and refuses at fsync."""

    def refuse(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OutputError, match=os.strerror(code)):
        fsio.write_temp(tmp_path, "a", b"one")
    assert not list(tmp_path.iterdir())


def test_make_folder_names_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="a file is in the way"):
            fsio.make_folder(path)


def test_publish_new_leaves_what_is_there(tmp_path: Path) -> None:
    assert fsio.publish_new(tmp_path, tmp_path / "a", b"one")
    assert not fsio.publish_new(tmp_path, tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("code", [None, errno.ESTALE])
def test_a_listing_looks_twice_at_what_a_client_remembers_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    (tmp_path / "a").touch()
    calls, scandir = [code, None], os.scandir

    def scan(folder: Path) -> object:
        if (now := calls.pop(0)) is not None:
            raise OSError(now, os.strerror(now))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)
    assert [entry.name for entry in fsio.list_folder(tmp_path)] == ["a"]
    calls[:] = [errno.ESTALE, errno.ESTALE]
    with pytest.raises(OutputError, match="Stale file handle"):
        fsio.list_folder(tmp_path)
    calls[:] = [errno.ENOENT]
    with pytest.raises(FileNotFoundError):
        fsio.list_folder(tmp_path)


def test_sha256_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    assert fsio.sha256_file(path) == expected
