from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packer.convert import convert_dataset
from packer.errors import UsageError
from packer.files.paths import given_path
from packer.input import open_input, open_list
from packer.merge import merge_pack
from packer.reader import Loader, PackedDataset
from packer.stage import stage_pack
from packer.verify import verify_pack
from packer.writer import PackWriter


def test_what_is_given_is_taken() -> None:
    assert given_path("a/b", "out") == given_path(Path("a/b"), "out") == Path("a/b")
    assert given_path(".", "out") == Path()
    with pytest.raises(UsageError, match=r"out is an empty path \('\.' is the working directory"):
        given_path("", "out")


@pytest.mark.parametrize(
    "call",
    [
        lambda: convert_dataset("sample", ""),
        lambda: convert_dataset("", "out"),
        lambda: open_input(""),
        lambda: open_input("imagenet", src=""),
        lambda: open_list(b"a.jpg", top=""),
        lambda: merge_pack(""),
        lambda: verify_pack(""),
        lambda: stage_pack("", "somewhere"),
        lambda: PackWriter("", classes=["a"]),
        lambda: PackedDataset(""),
        lambda: Loader("", batch_size=1),
    ],
)
def test_empty_paths_are_refused_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]
) -> None:
    """The working directory could be anything, another pack's folder for one."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is an empty path"):
        call()
    assert not any(tmp_path.iterdir())


def test_an_empty_folder_for_a_copy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="dest is an empty path"):
        stage_pack("pack", "")
    with pytest.raises(UsageError, match="stage is an empty path"):
        PackedDataset("pack", stage="")
