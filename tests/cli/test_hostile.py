"""Names, hosts and files that others made: nothing of them reaches a terminal or ends packer."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import OutputError
from packer.packing.holder import myself
from packer.writer import PackWriter
from tests.fixtures import Run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b"


@pytest.fixture
def unfinished(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """Half a pack of the folder "photos"."""
    options = ConvertOptions(resize="48", batch_size=4, shard_size=16_000, jobs=1, part=(0, 2))
    convert_dataset(make_tree(classes=3, each=20), tmp_path / "pack", options)
    return tmp_path / "pack"


def printable(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines())


def test_a_host_with_control_characters(run: Run, unfinished: Path) -> None:
    holder = dataclasses.replace(myself(), host=EVIL, job=EVIL)
    (unfinished / ".packer" / "lock-all").write_bytes(holder.to_bytes())
    done = run("merge", "pack")
    assert done.returncode == 1
    assert "in use by another packer on \\x1b]0;owned\\x07" in done.stderr
    assert printable(done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [["info", EVIL], [EVIL], ["info", f"--{EVIL}"]],
)
def test_arguments_with_control_characters(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2 and done.stderr
    assert printable(done.stderr)


def test_a_source_with_control_characters(
    run: Run, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    tree = make_tree(classes=2, each=2)
    next(path for path in tree.iterdir() if path.is_dir()).rename(tree / EVIL)
    (tree / EVIL / f"{EVIL}.jpg").write_bytes(b"no picture")
    done = run("convert", "photos", "-o", "out", "--resize", "48", "--max-skipped", 5)
    assert done.returncode == 0, done.stderr
    assert "x1b]0;owned" in done.stderr and printable(done.stderr)


MERGE = ["merge", "pack"]
#: The command that began the pack.
GO_ON = [
    "convert",
    "photos",
    "-o",
    "pack",
    "--resize",
    "48",
    "--batch-size",
    "4",
    "--shard-size",
    "16kB",
]


@pytest.mark.parametrize(
    ("name", "planted", "command"),
    [
        ("plan.json", "nested", MERGE),
        ("plan.json", "link", MERGE),
        ("plan.json", "pipe", GO_ON),
        ("lock-1", "pipe", MERGE),
        ("lock-1", "null", MERGE),
        ("train-000000.json", "null", GO_ON),
        ("train-000000.json", "pipe", MERGE),
    ],
)
def test_rubbish_in_the_work_folder_is_one_line(
    run: Run, unfinished: Path, name: str, planted: str, command: list[str]
) -> None:
    path = unfinished / ".packer" / name
    path.unlink(missing_ok=True)
    if planted == "pipe":
        os.mkfifo(path)
    elif planted == "link":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"[" * 1_000_000 if planted == "nested" else b"null")
    done = run(*command)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    # A lock that names nobody gives way; then the missing part is told of.
    wanted = "shards are missing" if (name, planted) == ("lock-1", "null") else f".packer/{name}: "
    assert wanted in done.stderr


@pytest.mark.parametrize("ledger", ["[" * 100_000, "null\n", '{"path": 5}', "\udcff", "pipe"])
@pytest.mark.parametrize("same_size", [False, True])
def test_rubbish_in_the_ledger_of_a_complete_pack(
    run: Run, tmp_path: Path, make_tree: Callable[..., Path], ledger: str, same_size: bool
) -> None:
    """Of another size, it is made again; else it is named, as nobody has asked for checksums."""
    tree = make_tree(classes=2, each=2)
    (next(tree.iterdir()) / "not.jpg").write_bytes(b"no picture")
    options = ConvertOptions(resize="48", jobs=1)
    convert_dataset(tree, tmp_path / "pack", options)
    path = tmp_path / "pack" / "skipped.jsonl"
    right = path.read_bytes()
    assert json.loads(right)["path"].endswith("not.jpg")
    path.unlink()
    if ledger == "pipe":
        os.mkfifo(path)
        same_size = False
    else:
        data = ledger.encode("utf-8", "surrogateescape")
        path.write_bytes(data[: len(right)].ljust(len(right)) if same_size else data)
    done = run("convert", "photos", "-o", "pack", "--resize", "48")
    assert "Traceback" not in done.stderr
    if same_size:
        assert "skipped.jsonl: cannot be read" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert "moved skipped.jsonl to skipped.jsonl.old-" in done.stderr
        assert path.read_bytes() == right
    shutil.rmtree(tmp_path / "pack")


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("convert", "photos", "-o", "pack"),
        ("convert", "photos", "-o", "pack", "--part", "0/2"),
        ("convert", "photos", "-o", "pack", "--force"),
        ("merge", "pack"),
    ],
    ids=" ".join,
)
def test_a_work_folder_that_leads_elsewhere_is_refused(
    run: Run, tmp_path: Path, make_tree: Callable[..., Path], command: list[str], complete: bool
) -> None:
    """A pack from a stranger may have one: files where it leads would be written and removed."""
    tree = make_tree(classes=1, each=2)
    (tmp_path / "pack").mkdir()
    if complete:
        convert_dataset(tree, tmp_path / "pack", ConvertOptions(jobs=1, backend="sequential"))
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("settings.json", "lock-all", "a.tmp"):
        (mine / name).write_text("{}")
    (tmp_path / "pack" / ".packer").symlink_to(mine)
    done = run(*command)
    if "--force" in command and not complete:
        assert "holds no pack, so --force does not touch it" in done.stderr
    else:
        assert done.returncode == 1
        assert ".packer: is a symbolic link, which packer never makes" in done.stderr
    assert {path.name: path.read_text() for path in mine.iterdir()} == dict.fromkeys(
        ("settings.json", "lock-all", "a.tmp"), "{}"
    )


def test_a_writer_refuses_it_too(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "settings.json").write_text("{}")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / ".packer").symlink_to(tmp_path / "mine")
    with pytest.raises(OutputError, match="is a symbolic link"):
        PackWriter(tmp_path / "pack", classes=["a"])
    assert os.listdir(tmp_path / "mine") == ["settings.json"]
