"""A pack that changes during reading.

Readers give the right pictures or an error that names the file: no signal, no other pictures.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("changing.py")
#: What each change may lead to. Of a file with the same name the old one may still be open.
EXPECTED = {
    "half": {"error"},
    "empty": {"error"},
    "copy-over": {"error"},
    "same-size": {"error"},
    "replace": {"error", "right"},
    "touch": {"right"},
}
#: Formats and codecs, taken in turn.
KINDS = (("tar", "raw"), ("lmdb", "jpeg"), ("hdf5", "png"))


#: What has a process of its own takes longer to start.
THREADS = ("items", "items-shm", "stream", "stream-shm", "loader", "loader-shm")
PROCESSES = (
    "stream-workers:tar:raw:shards:half",
    "stream-workers:lmdb:jpeg:index:same-size",
    "stream-workers-shm:tar:raw:shards:empty",
    "loader-process:hdf5:raw:shards:half",
)


def trials() -> list[str]:
    kinds = itertools.cycle(KINDS)
    return [
        f"{reader}:{':'.join(next(kinds))}:{what}:{change}"
        for reader, what, change in itertools.product(THREADS, ("shards", "index"), EXPECTED)
    ]


def test_every_reader(tmp_path: Path) -> None:
    wanted = [*trials(), *PROCESSES]
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, *wanted],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.count(" ") == 1)
    assert list(found) == wanted, done.stdout + done.stderr
    wrong = {
        trial: result
        for trial, result in found.items()
        if result not in EXPECTED[trial.rsplit(":", 1)[1]]
    }
    assert not wrong, f"{wrong}\n{done.stderr}"
