"""`find … -print0 | packer convert - --null`, and lists in files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import Digest, MakeTree

pytestmark = pytest.mark.slow


PACKER = f"{sys.executable} -m packer"
SMALL = "--resize 48 --batch-size 4 --shard-size 16kB --jobs 2 --split train=0.5,val=0.5"


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PACKER_")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("here", "pipeline"),
    [
        ("photos", f"find . -print0 | {PACKER} convert - --null -o ../listed {SMALL}"),
        ("photos", f"find . -type f | sort -r | {PACKER} convert - -o ../listed {SMALL}"),
        (".", f"find photos -name '*.jpg' >l.txt; {PACKER} convert l.txt --src photos"
              f" -o listed {SMALL}"),
        (".", f"find $PWD/photos -print0 >paths; {PACKER} convert paths --null --src photos"
              f" -o listed {SMALL}"),
    ],
)  # fmt: skip
def test_the_pack_of_a_list_is_that_of_the_folder(
    make_tree: MakeTree, digest_tree: Digest, tmp_path: Path, here: str, pipeline: str
) -> None:
    make_tree()
    found = shell(tmp_path / here, pipeline)
    assert found.returncode == 0, found.stderr
    assert found.stdout == f"{tmp_path}/listed\n".replace(
        "/listed", "/photos/../listed" if here == "photos" else "/listed"
    )
    assert shell(tmp_path, f"{PACKER} convert photos -o folder {SMALL}").returncode == 0
    assert digest_tree(tmp_path / "listed") == digest_tree(tmp_path / "folder")
    again = shell(tmp_path, f"{PACKER} convert photos -o listed {SMALL}")
    assert "complete" in again.stderr


def test_parts_of_a_list(make_tree: MakeTree, digest_tree: Digest, tmp_path: Path) -> None:
    make_tree()
    for part in range(3):
        pipeline = f"find . -print0 | {PACKER} convert - --null -o ../listed {SMALL}"
        found = shell(tmp_path / "photos", f"{pipeline} --part {part}/3")
        assert found.returncode == 0, found.stderr
    assert shell(tmp_path, f"{PACKER} merge listed").returncode == 0
    assert shell(tmp_path, f"{PACKER} convert photos -o folder {SMALL}").returncode == 0
    assert digest_tree(tmp_path / "listed") == digest_tree(tmp_path / "folder")
    # A list of other files is another source.
    other = "find . -name '*1.jpg' -print0"
    found = shell(tmp_path / "photos", f"{other} | {PACKER} convert - --null -o ../listed {SMALL}")
    assert found.returncode == 2
    assert "source listing" in found.stderr


def test_missing_files_are_in_the_ledger(make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    pipeline = f"(find . -name '*.jpg'; echo 001.class0/gone.jpg) | {PACKER} convert - -o ../listed"
    found = shell(tmp_path / "photos", f"{pipeline} {SMALL}")
    assert found.returncode == 0, found.stderr
    assert "24 packed of 25 planned" in found.stderr
    ledger = [
        json.loads(line)
        for line in (tmp_path / "listed" / "skipped.jsonl").read_text().splitlines()
    ]
    assert [(line["path"], line["reason"]) for line in ledger] == [
        ("001.class0/gone.jpg", "missing")
    ]


def test_wrong_lists_are_exit_2(make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    twice = shell(tmp_path / "photos", f"(find . -type f; find .) | {PACKER} convert - -o ../pack")
    assert (twice.returncode, twice.stdout) == (2, "")
    assert "twice in the list of paths" in twice.stderr
    outside = shell(tmp_path, f"find photos | {PACKER} convert - --src photos/001.class0 -o pack")
    assert outside.returncode == 2
    assert "--src" in outside.stderr
    empty = shell(tmp_path, f"find photos -name '*.gif' | {PACKER} convert - -o pack")
    assert empty.returncode == 2
    assert "the list of paths is empty" in empty.stderr
    assert not (tmp_path / "pack").exists()


def test_a_list_from_above_the_classes_is_warned_of(make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    pipeline = f"find photos -type f | {PACKER} convert - --dry-run"
    found = shell(tmp_path, pipeline)
    assert "all listed files are in photos/, which makes one class; --src names" in found.stderr
    assert "one class" not in shell(tmp_path, f"{pipeline} --src photos").stderr
