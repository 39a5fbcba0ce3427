"""Staging in folders of several users: permissions of copies, and files of other users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer.errors import DamageError, OutputError
from packer.files.fsio import sha256_file
from packer.reporting import Reporter
from packer.staging.excerpt import StageOptions
from packer.staging.making import copy_pack, find_staged
from tests.packs import BuildPack, PackOptions

#: Shards of about 150 KB, one of 80.
SHARDS: PackOptions = {"shards": [[8, 8], [8, 8], [8]], "sizes": [(64, 40)]}


def files(folder: Path) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_strangers_copy_is_refused(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack(**SHARDS).root
    copy = copy_pack(root, tmp_path / "disk")
    os.chown(copy, 12345, 12345)
    assert find_staged(root, tmp_path / "disk", "train") is None
    said: list[str] = []

    class Ear(Reporter):
        def note(self, text: str) -> None:
            said.append(text)

    own = copy_pack(root, tmp_path / "disk", reporter=Ear())
    assert own == copy.with_name(f"{copy.name}-{os.getuid()}")
    assert said[0] == f"another user has a copy of that name: staging to {own}"
    assert files(own) == files(root)
    assert find_staged(root, tmp_path / "disk", "train") == own
    os.chown(own, 12345, 12345)
    with pytest.raises(OutputError, match=rf"{own.name}: belongs to another user.*remove it"):
        copy_pack(root, tmp_path / "disk")


@pytest.mark.parametrize("planted", ["pipe", "file", "link", "folder that all may write to"])
def test_what_has_the_name_of_a_copy_is_not_read(
    build_pack: BuildPack, tmp_path: Path, planted: str
) -> None:
    root = build_pack(**SHARDS).root
    path = copy_pack(root, tmp_path / "disk")
    path.rename(tmp_path / "aside")
    if planted == "pipe":
        os.mkfifo(path)
    elif planted == "file":
        path.write_bytes(b"")
    elif planted == "link":
        path.symlink_to(tmp_path / "aside")
    else:
        path.mkdir()
        path.chmod(0o777)
        os.mkfifo(path / "manifest.json")
    own = copy_pack(root, tmp_path / "disk")
    assert own.name == f"{path.name}-{os.getuid()}"
    assert files(own) == files(root)


@pytest.mark.parametrize("name", ["manifest.json", "train-000001.tar", "train-000001.index"])
@pytest.mark.parametrize("planted", ["pipe", "link"])
def test_what_lies_in_place_of_a_file_is_replaced(
    build_pack: BuildPack, tmp_path: Path, name: str, planted: str
) -> None:
    root = build_pack(**SHARDS).root
    path = copy_pack(root, tmp_path / "disk")
    other = tmp_path / "other"
    other.write_bytes(b"keep")
    (path / name).unlink()
    os.mkfifo(path / name) if planted == "pipe" else (path / name).symlink_to(other)
    if name == "train-000001.index":  # which no one needs to read the pack
        (path / "train.index").unlink()
    assert copy_pack(root, tmp_path / "disk") == path
    assert files(path) == files(root)
    assert (path / name).is_file() and not (path / name).is_symlink()
    assert other.read_bytes() == b"keep"


@pytest.mark.parametrize("planted", ["pipe", "link"])
def test_a_lock_that_is_none_is_refused(
    build_pack: BuildPack, tmp_path: Path, planted: str
) -> None:
    root = build_pack(**SHARDS).root
    path = copy_pack(root, tmp_path / "disk")
    (path / "manifest.json").unlink()
    lock = path / ".staging" / "lock"
    lock.parent.mkdir()
    os.mkfifo(lock) if planted == "pipe" else lock.symlink_to(tmp_path / "made")
    with pytest.raises(OutputError, match=r"\.staging/lock"):
        copy_pack(root, tmp_path / "disk")
    assert not (tmp_path / "made").exists()


def test_a_pipe_in_a_packs_place_is_damage(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack(**SHARDS).root
    (root / "train-000001.tar").unlink()
    os.mkfifo(root / "train-000001.tar")
    with pytest.raises(DamageError, match=r"train-000001\.tar: is missing"):
        copy_pack(root, tmp_path / "disk")


def test_a_folder_in_which_all_may_replace_files_is_refused(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    root = build_pack(**SHARDS).root
    disk = tmp_path / "disk"
    disk.mkdir()
    disk.chmod(0o777)
    with pytest.raises(OutputError, match=r"disk: all users may remove each other's files"):
        copy_pack(root, disk)
    assert not any(disk.iterdir())
    disk.chmod(0o1777)
    assert files(copy_pack(root, disk)) == files(root)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o444)])
def test_a_copy_has_no_more_rights_than_the_pack(
    build_pack: BuildPack, tmp_path: Path, umask: int, folder: int, file: int
) -> None:
    """The whole pack, an excerpt, one that shares shards with another, and one taken up again."""
    root = build_pack(**SHARDS).root
    (root / "manifest.json").chmod(file)

    def check(*copies: Path) -> None:
        for copy in copies:
            assert copy.stat().st_mode & 0o777 == (folder & ~umask) | 0o700
            for path in copy.iterdir():
                assert path.stat().st_mode & 0o777 == file & ~umask

    def close() -> None:
        for path in root.iterdir():
            path.chmod(file)
        root.chmod(folder)

    close()
    check(*(copy_pack(root, tmp_path / "disk", StageOptions(fraction=f)) for f in (1, 0.4)))
    assert (tmp_path / "disk").stat().st_mode & 0o022 == 0
    path = copy_pack(root, tmp_path / "elsewhere")
    (path / "manifest.json").unlink()
    (path / "train-000001.tar").unlink()
    path.chmod(0o755)
    copy_pack(root, tmp_path / "elsewhere")
    check(path)


def test_a_copy_loses_the_rights_that_its_pack_has_lost(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    root = build_pack(**SHARDS).root
    root.chmod(0o755)
    path = copy_pack(root, tmp_path / "disk")
    for again in (copy_pack, lambda root, disk: find_staged(root, disk, "train")):
        path.chmod(0o755)
        root.chmod(0o700)
        assert again(root, tmp_path / "disk") == path
        assert path.stat().st_mode & 0o777 == 0o700


def test_rights_of_folders_above_are_told_of(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack(**SHARDS, name="home/pack").root
    root.chmod(0o755)
    said: list[str] = []

    class Ear(Reporter):
        def warn(self, text: str) -> None:
            said.append(text)

    copy_pack(root, tmp_path / "disk", reporter=Ear())
    assert said == []
    root.parent.chmod(0o700)
    copy_pack(root, tmp_path / "disk", reporter=Ear())
    assert len(said) == 1 and f"{root.parent} keeps them out" in said[0]
    copy_pack(root, root.parent, reporter=Ear())
    root.chmod(0o700)
    copy_pack(root, tmp_path / "disk", reporter=Ear())
    assert len(said) == 1
