"""Whole conversions on file systems with restricted link().

link() fails between folders (AFS, mergerfs) or always (FAT, SMB, FUSE), or it makes a symbolic link
(BeeGFS).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures import Digest, Meet

pytestmark = pytest.mark.faults

Command = Callable[..., subprocess.Popen[str]]

#: Kinds of links by their number in shim.c.
KINDS = {
    "none between": 1,
    "no permission": 2,
    "not there": 3,
    "symbolic between": 4,
    "no rename either": 5,
}
#: Each format with one kind, and the first format with all.
PAIRS = [
    *(("tar", kind) for kind in KINDS),
    ("lmdb", "symbolic between"),
    ("hdf5", "no permission"),
]
#: Files of several sorts on their way.
PLACES = ("lock-all", "train-000000.index", "train-000001.tar", "manifest.json")
#: One kind for each way in which a file gets its name.
WAYS = ("none between", "no permission", "no rename either")


@pytest.mark.parametrize(("format_name", "kind"), PAIRS)
def test_the_pack_is_the_same(meet: Meet, format_name: str, kind: str) -> None:
    """Nothing is met: `again` finds it complete."""
    outcome = meet(format_name, call="", text="", nth=0, action=0, links=kind)
    assert (outcome["code"], outcome["again"]) == (0, 0), outcome
    assert outcome["complete"]
    assert (outcome["differing"], outcome["rewritten"], outcome["left"]) == ([], [], [])


@pytest.mark.parametrize("kind", WAYS)
def test_killed_at_any_step_nothing_half_done_counts(meet: Meet, kind: str) -> None:
    """Before the first name that a file gets, and before its second."""
    met = 0
    for place in PLACES:
        for nth in (1, 2):
            outcome = meet(
                "tar",
                call="link", text=place, nth=nth, action=-signal.SIGKILL,
                cut_temps=True, links=kind,
            )  # fmt: skip
            met += outcome["met"]
            assert outcome["code"] == (-signal.SIGKILL if outcome["met"] else 0), outcome
            assert outcome["complete"] == (not outcome["met"])
            assert outcome["again"] == 0, outcome["said_again"]
            assert (outcome["differing"], outcome["rewritten"]) == ([], []), (place, outcome)
            assert outcome["left"] == [], outcome
    assert met >= len(PLACES)


@pytest.mark.parametrize("kind", WAYS)
def test_a_failure_is_told_with_the_final_name(meet: Meet, kind: str) -> None:
    outcome = meet("tar", call="link", text="train-000001.tar", nth=1, action=errno.EIO, links=kind)
    assert (outcome["met"], outcome["code"], outcome["again"]) == (True, 1, 0), outcome
    assert "/pack/train-000001.tar: Input/output error" in outcome["said"]
    assert (outcome["differing"], outcome["temps"], outcome["left"]) == ([], [], [])


@pytest.fixture
def command(photos: Path, preload: dict[str, str]) -> Iterator[Command]:
    """Starts commands with links of a kind: `command("none between", "convert", …)`."""
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "packer", *map(str, arguments)],
            env=preload | {"FAULT_LINKS": str(KINDS.get(kind, 0))},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _said(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=100)
    assert process.returncode == 0, error
    return out.strip()


@pytest.fixture(scope="session")
def options(photos: Path) -> list[str]:
    """A conversion of the pictures in four shards."""
    return [
        "convert", os.fspath(photos), "--resize", "24", "--batch-size", "4", "--shard-size", "1",
        "--jobs", "1", "--quiet",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["symbolic between", "no permission", "no rename either"])
def test_parts_at_once_are_joined_and_staged(
    command: Command, options: list[str], tmp_path: Path, digest_tree: Digest, kind: str
) -> None:
    out, whole = tmp_path / "pack", tmp_path / "whole"
    runs = [command(kind, *options, "-o", out, "--part", part) for part in ("0/2", "1/2")]
    _said(command("hard", *options, "-o", whole))
    for run in runs:
        _said(run)
    _said(command(kind, "merge", out))
    assert digest_tree(out) == digest_tree(whole)
    assert not [path for path in out.iterdir() if path.is_symlink()]
    _said(command(kind, "verify", "--decode", "--jobs", "1", out))
    half = Path(_said(command(kind, "stage", "--fraction", "0.5", out, tmp_path / "disk")))
    staged = Path(_said(command(kind, "stage", out, tmp_path / "disk")))
    shutil.rmtree(half)  # of which the other one may have taken shards by link
    _said(command("hard", "verify", "--decode", "--jobs", "1", staged))


@pytest.mark.parametrize("kind", ["none between", "no permission"])
def test_of_two_runs_at_once_one_makes_the_pack(
    command: Command, options: list[str], tmp_path: Path, digest_tree: Digest, kind: str
) -> None:
    out, whole = tmp_path / "pack", tmp_path / "whole"
    runs = [command(kind, *options, "-o", out) for _ in range(2)]
    _said(command("hard", *options, "-o", whole))
    said = [run.communicate(timeout=100)[1] for run in runs]
    codes = sorted(run.returncode for run in runs)
    assert codes in ([0, 0], [0, 1]), said
    if codes == [0, 1]:
        assert "in use by another packer" in "".join(said)
    assert digest_tree(out) == digest_tree(whole)


@pytest.mark.parametrize("kind", ["none between", "symbolic between"])
def test_packs_from_code(preload: dict[str, str], tmp_path: Path, kind: str) -> None:
    script = (
        "import sys, numpy as np\n"
        "from packer.writer import PackWriter\n"
        "from packer.verify import VerifyOptions, verify_pack\n"
        "with PackWriter(sys.argv[1], classes=['one']) as writer:\n"
        "    for key in 'ab':\n"
        "        writer.write(image=np.zeros((8, 8, 3), np.uint8), label=0, key=key)\n"
        "assert not verify_pack(sys.argv[1], VerifyOptions(decode=True, jobs=1)).damage\n"
    )
    environment = preload | {"FAULT_LINKS": str(KINDS[kind])}
    out = tmp_path / "pack"
    subprocess.run([sys.executable, "-c", script, out], env=environment, check=True, timeout=100)
    assert not [path for path in out.iterdir() if path.is_symlink() or path.suffix == ".tmp"]
