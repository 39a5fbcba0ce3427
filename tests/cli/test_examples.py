from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures import MakeTree, Run

SCRIPTS = Path(__file__).parents[2] / "scripts"
#: Name → file, for all that there is.
FILES = {
    **{path.stem: path for path in (SCRIPTS / "examples").glob("*.py") if path.stem != "__init__"},
    **{
        f"slurm/{path.name}": path
        for path in (SCRIPTS / "slurm").iterdir()
        if path.is_file() and path.suffix != ".py"
    },
}


def test_lists_all_with_a_line_each(run: Run) -> None:
    rows = [line.split(maxsplit=1) for line in run("examples").stdout.splitlines()]
    assert {name for name, _ in rows} == {*FILES}
    assert rows[0][0] == "train"
    for name, summary in rows:
        assert summary.endswith("."), name
        assert summary in FILES[name].read_text()


def test_prints_one(run: Run) -> None:
    for name in ("train", "train.py", "train_ddp", "slurm/convert.sh"):
        file = FILES[name.removesuffix(".py")]
        assert run("examples", name).stdout == file.read_text()
    done = run("examples", "train_dpp")
    assert done.returncode == 2
    assert done.stderr == "packer: unknown example 'train_dpp'\npacker: did you mean 'train_ddp'?\n"


def test_copies_all_into_a_new_folder(run: Run, tmp_path: Path) -> None:
    done = run("examples", "--all", "my jobs")
    folder = tmp_path / "my jobs"
    assert done.stdout == f"{folder}\n"
    copied = {path for path in folder.rglob("*") if path.is_file()}
    assert len(copied) == len(FILES)
    for path in copied:
        original = SCRIPTS / path.relative_to(folder)
        assert path.read_bytes() == original.read_bytes()
        assert os.access(path, os.X_OK) == os.access(original, os.X_OK)
    again = run("examples", "--all", "my jobs")
    assert again.returncode == 1
    assert again.stderr == "packer: my jobs: already there\npacker: name a new folder\n"
    assert run("examples", "train", "--all", "other").returncode == 2
    assert not (tmp_path / "other").exists()


def test_the_plain_loop_trains(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    """Printed, and run as a script of the user's own."""
    made = run("convert", make_tree(classes=2, each=4), "--resize", "64", "--out", "pack")
    assert made.returncode == 0, made.stderr
    script = tmp_path / "mine.py"
    script.write_text(run("examples", "train").stdout)
    done = subprocess.run(
        [sys.executable, script, "pack"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(": loss")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"]
