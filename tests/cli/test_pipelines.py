"""packer in the shell's pipelines: closed pipes, closed streams, exit codes, logs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures import MakeTree

pytestmark = pytest.mark.slow

PACKER = f"{sys.executable} -m packer"
DATE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def shell(tmp_path: Path, make_tree: MakeTree) -> Callable[[str], tuple[int, str, str]]:
    """Runs a line of bash with pipefail where `photos` lies: exit code, stdout, stderr."""
    make_tree()

    def run(line: str) -> tuple[int, str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PACKER_")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=tmp_path, env=clean, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


Shell = Callable[[str], tuple[int, str, str]]
MAKE = f"{PACKER} convert photos --resize 48 -j1 -o pack"


def test_a_reader_that_has_enough_ends_packer_quietly(shell: Shell) -> None:
    """As any other program does: 141, which pipefail makes the pipeline's."""
    assert shell(MAKE)[0] == 0
    assert shell(f"{PACKER} ls pack | true") == (141, "", "")
    assert shell(f"{PACKER} cat pack 001.class0/001_0001.jpg | true")[0] in (0, 141)
    # It fits into the pipe: head may have read it all before it ends.
    code, out, err = shell(f"{PACKER} ls pack | head -1")
    assert (code in (0, 141), out.split("\t")[0], err) == (True, "key", "")


def test_a_reader_of_stderr_that_has_enough(shell: Shell) -> None:
    for progress in ("log", "json"):
        line = f"{MAKE} --force --progress {progress} 2>&1 >/dev/null | true"
        assert shell(line) == (141, "", "")


def test_closed_streams_never_are_a_shard(shell: Shell) -> None:
    code, out, _ = shell(f"{MAKE} 2>&- <&-")
    assert (code, out.endswith("/pack\n")) == (0, True)
    assert shell(f"{PACKER} verify pack --decode")[0] == 0
    code, _, err = shell(f"{PACKER} ls pack >&-")
    assert (code, "Bad file descriptor" in err, "Traceback" in err) == (1, True, False)


def test_and_goes_on_after_success_alone(shell: Shell) -> None:
    code, out, _ = shell(f'out=$({MAKE}) && echo "train on $out"')
    assert (code, out.startswith("train on /")) == (0, True)
    code, out, err = shell(f'out=$({PACKER} convert nowhere) && echo "train on $out"')
    assert (code, out) == (2, "")
    assert err.splitlines()[0].startswith("packer: nowhere: ")
    code, out, _ = shell(f"{PACKER} convert nowhere | cat")
    assert (code, out) == (2, "")


def test_a_log_ends_with_the_verdict(shell: Shell, tmp_path: Path) -> None:
    assert shell(f"{MAKE} >log 2>&1")[0] == 0
    log = (tmp_path / "log").read_text()
    assert "\r" not in log
    assert re.search(rf"packer: {DATE} done: 24/24 images, 0 skipped, \d+\.\d s", log)
    (tmp_path / "photos" / "001.class0" / "cut.jpg").write_bytes(b"\xff\xd8\xff")
    code, _, err = shell(f"{PACKER} convert photos -o strict --max-skipped 0")
    assert code == 3
    last = err.splitlines()[-1]
    assert re.fullmatch(
        rf"packer: {DATE} stopped \(exit code 3\): \d+/25 images, 1 skipped, \d+\.\d s", last
    )
    code, _, err = shell(f"{PACKER} convert photos -o strict --on-error fail")
    assert (code, "failed (exit code 1): " in err.splitlines()[-1]) == (1, True)


def test_a_part_counts_to_its_own_end(shell: Shell) -> None:
    """What is left of a part is not what is left of all parts."""
    line = f"{MAKE} --batch-size 4 --shard-size 8kB --progress json --part"
    ends = [json.loads(shell(f"{line} {part}/2")[2].splitlines()[-1]) for part in range(2)]
    assert all(0 < end["done"] == end["total"] < 24 for end in ends)
    assert sum(end["total"] for end in ends) == 24


def test_events_tell_how_it_ended(shell: Shell) -> None:
    code, _, err = shell(f"{MAKE} --progress json")
    events = [json.loads(line) for line in err.splitlines()]
    assert [events[0]["event"], events[0]["command"]] == ["start", "convert"]
    assert (code, events[-1]["event"], events[-1]["exit_code"]) == (0, "done", 0)
    code, _, err = shell(f"{PACKER} verify nowhere --progress json")
    last = json.loads(err.splitlines()[-1])
    assert (code, last["event"], last["exit_code"]) == (2, "failed", 2)
    assert "nowhere" in last["message"]


def test_a_signal_is_the_last_event(tmp_path: Path, make_tree: MakeTree) -> None:
    make_tree(each=60, size=300)
    arguments = ["photos", "-o", "pack", "--batch-size", "4", "--shard-size", "100kB", "-j1"]
    with subprocess.Popen(
        [sys.executable, "-m", "packer", "convert", *arguments, "--progress", "json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not list(tmp_path.glob("pack/*.tar")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    last = json.loads(err.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["message"]) == (
        "stopped", 143, "stopped by SIGTERM",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 2)]
)
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(
    tmp_path: Path, make_tree: MakeTree, number: signal.Signals, jobs: int
) -> None:
    """As under nohup, behind `trap ''`, and in the background of a script, for which shells ignore
    SIGINT. The signal reaches the workers too, as that of a terminal does.
    """
    make_tree(each=30, size=200)
    options = f"-o pack --batch-size 4 --shard-size 50kB -j{jobs}"
    line = f"trap '' {number.name.removeprefix('SIG')}; exec {PACKER} convert photos {options}"
    with subprocess.Popen(
        ["bash", "-c", line], cwd=tmp_path, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not list(tmp_path.glob("pack/*.tar")):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, f"{tmp_path}/pack\n"), err
    assert "stopped" not in err
