from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from packer.pack.manifest import read_manifest
from packer.staging.copying import FileCopy
from packer.staging.found import OtherCopies, is_complete, is_free, is_own
from tests.packs import BuildPack


def test_a_copy_is_complete_with_all_of_its_files(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack([[2], [2]]).root
    assert is_complete(root)
    for name in ("manifest.json", "train.index", "train-000001.tar"):
        whole = (root / name).read_bytes()
        (root / name).write_bytes(whole[:-10])
        assert not is_complete(root)
        (root / name).unlink()
        assert not is_complete(root)
        (root / name).write_bytes(whole)
        assert is_complete(root)
    assert not is_complete(tmp_path / "nothing")


def test_only_a_folder_that_nobody_else_can_write_to_is_read(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir(0o755)
    link.symlink_to(folder)
    assert is_own(folder) and is_free(folder)
    assert not is_own(link) and not is_free(link)
    assert not is_own(tmp_path / "nothing") and is_free(tmp_path / "nothing")
    for mode in (0o775, 0o757):
        folder.chmod(mode)
        assert not is_own(folder) and not is_free(folder)
    folder.chmod(0o755)
    if os.getuid() == 0:
        os.chown(folder, 12345, 12345)
        assert not is_own(folder) and not is_free(folder)


@pytest.mark.parametrize("planted", ["pipe", "link", "theirs", "open to all"])
@pytest.mark.parametrize("name", ["manifest.json", "train-000000.tar", "train.index"])
def test_what_others_planted_is_not_read(build_pack: BuildPack, name: str, planted: str) -> None:
    """A pipe would be waited for, for ever."""
    root = build_pack([[2], [2]]).root
    path = root / name
    aside = root.parent / "aside"
    if planted in ("pipe", "link"):
        path.rename(aside)
        os.mkfifo(path) if planted == "pipe" else path.symlink_to(aside)
    elif planted == "open to all":
        path.chmod(0o666)
    elif os.getuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        pytest.skip("only root can give a file away")
    assert not is_complete(root)


def wanted(root: Path, target: Path, number: int) -> FileCopy:
    shard = read_manifest(root).splits["train"].shards[number]
    return FileCopy(root / shard.name, target / shard.name, shard.size, shard.sha256)


def test_shards_of_other_copies_are_linked(
    build_pack: BuildPack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the very same: name and content; of a complete copy of this name."""
    disk = tmp_path / "disk"
    root = build_pack([[2], [2]], name="source/pack").root
    shutil.copytree(root, disk / "pack-111111111111")
    shutil.copytree(
        build_pack([[2], [2]], seed=1, name="other/pack").root, disk / "pack-222222222222"
    )
    (disk / "some-file").write_text("")
    target = disk / "pack-333333333333"
    target.mkdir()
    file = wanted(root, target, 1)
    others = OtherCopies(target)
    assert others.find(file) == disk / "pack-111111111111" / "train-000001.tar"
    assert others.link(file, 0o644)
    assert others.link(file, 0o644)
    assert file.target.samefile(disk / "pack-111111111111" / "train-000001.tar")
    assert OtherCopies(disk / "elsewhere-333333333333").find(file) is None
    (disk / "pack-111111111111" / "train.index").unlink()
    assert not OtherCopies(target).link(file, 0o644)

    def refuse(*paths: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    assert not others.link(file, 0o644)


def test_a_shard_that_others_can_read_is_not_linked_into_a_private_copy(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    root = build_pack([[2], [2]], name="source/pack").root
    shutil.copytree(root, tmp_path / "disk" / "pack-111111111111")
    target = tmp_path / "disk" / "pack-333333333333"
    target.mkdir()
    assert not OtherCopies(target).link(wanted(root, target, 1), 0o600)
    assert not any(target.iterdir())
