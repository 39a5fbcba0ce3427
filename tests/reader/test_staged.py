from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from packer.manifest import read_manifest
from packer.reader.copying import FileCopy
from packer.reader.staged import OtherCopies, is_complete, is_own


def test_a_copy_is_complete_with_all_of_its_files(build_pack: Any, tmp_path: Path) -> None:
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


def test_a_link_counts_by_who_made_it(tmp_path: Path) -> None:
    """Not by what it points to."""
    link = tmp_path / "link"
    link.symlink_to("/nowhere")
    assert is_own(link)
    if os.getuid() == 0:
        os.chown(link, 12345, 12345, follow_symlinks=False)
        assert not is_own(link)


def wanted(root: Path, target: Path, number: int) -> FileCopy:
    shard = read_manifest(root).splits["train"].shards[number]
    return FileCopy(root / shard.name, target / shard.name, shard.size, shard.sha256)


def test_shards_of_other_copies_are_linked(
    build_pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert others.link(file)
    assert others.link(file)
    assert file.target.samefile(disk / "pack-111111111111" / "train-000001.tar")
    assert OtherCopies(disk / "elsewhere-333333333333").find(file) is None
    (disk / "pack-111111111111" / "train.index").unlink()
    assert not OtherCopies(target).link(file)

    def refuse(*paths: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    assert not others.link(file)
