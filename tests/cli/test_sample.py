from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from packer.cli._sample import cache_folder
from tests.fixtures import Run


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/packer"),
        ({"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/packer"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/packer"),
        ({}, "/home/me/.cache/packer"),
    ],
)
def test_the_cache_is_where_others_are(
    environ: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder(environ) == Path(folder)


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "relative")
    assert cache_folder({}) is None


def test_the_second_conversion_draws_nothing_and_makes_the_same_pack(
    run: Run, tmp_path: Path, digest_tree: Callable[[Path], dict[str, str]]
) -> None:
    for out in ("one", "two"):  # the first may draw: these tests share a cache
        found = run("convert", "sample", "--resize", "32", "-o", out, "-v")
        assert found.returncode == 0, found.stderr
        assert found.stdout == f"{tmp_path / out}\n"
    assert "drawing" not in found.stderr
    kept = found.stderr.partition("the sample's pictures are those in ")[2].splitlines()[0]
    assert Path(kept).parent == Path(os.environ["XDG_CACHE_HOME"], "packer")
    assert digest_tree(tmp_path / "one") == digest_tree(tmp_path / "two")
