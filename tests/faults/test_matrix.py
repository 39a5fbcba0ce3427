"""Every fault in every phase and format.

The exit code is right, one line names fault and file, and finished shards are kept. The same
command then continues, and the pack equals that of an undisturbed run.

PACKER_TEST_FAULTS=all runs every errno at every place in every format. By default each place has
one errno a call, and faults common to all formats are tried with tar.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from packer import registry
from tests.fixtures import Meet

pytestmark = pytest.mark.faults


FORMATS = registry.names("formats")
ALL = os.environ.get("PACKER_TEST_FAULTS") == "all"
ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE)
CALLS = ("open", "write", "sync", "close", "link")
#: Phase → texts in the paths of the files that it writes; {x} is the shards' extension.
PHASES = {
    "start": ("plan.json", "lock-all"),
    "first": ("train-000000.{x}", "train-000000.json", "train-000000.index"),
    "between": ("train-000001.{x}", "train-000001.json", "train-000001.index"),
    "last": ("train-000003.{x}", "train-000003.json", "train-000003.index"),
    "end": ("train.index", "skipped.jsonl", "manifest.json"),
}


def _places(format_name: str, phase: str) -> list[str]:
    extension = registry.load("formats", format_name).EXTENSION
    own = ALL or format_name == "tar"
    texts = [text for text in PHASES[phase] if own or "{x}" in text]
    return [text.format(x=extension) for text in texts]


def _calls(format_name: str, place: str) -> tuple[str, ...]:
    """Small files are all written by the same few lines: the manifest stands for them."""
    shard = place.endswith(registry.load("formats", format_name).EXTENSION)
    return CALLS if ALL or shard or place == "manifest.json" else ("write", "sync", "link")


#: Format and phase, where there is something to try.
PAIRS = [(name, phase) for name in FORMATS for phase in PHASES if _places(name, phase)]


def _check_whole(outcome: dict[str, Any]) -> None:
    """What holds after any fault."""
    assert outcome["again"] == 0, outcome["said_again"]
    [skipped] = outcome["said_again"].splitlines() or ["1 picture skipped"]  # one is cut short
    assert "1 picture skipped" in skipped
    assert outcome["rewritten"] == []
    assert outcome["differing"] == []
    assert outcome["left"] == []


def _check_said(outcome: dict[str, Any], *words: str) -> None:
    """One line that says what and where, and at most one with what to do."""
    lines = outcome["said"].splitlines()
    assert 1 <= len(lines) <= 2, outcome["said"]
    assert all(line.startswith("packer: ") for line in lines)
    for word in words:
        assert word in lines[0]


def _errors() -> Iterator[Any]:
    """(format, phase, place, call, errno); the errnos take turns."""
    turn = 0
    for name in FORMATS:
        for phase in PHASES:
            for place in _places(name, phase):
                for call in _calls(name, place):
                    turn += 1
                    for code in ERRNOS if ALL else (ERRNOS[turn % len(ERRNOS)],):
                        yield name, phase, place, call, code


@pytest.mark.parametrize(("format_name", "phase"), PAIRS)
def test_a_call_of_the_system_fails(meet: Meet, format_name: str, phase: str) -> None:
    """NFS reports a full disk at fsync or close alone: these are among the calls."""
    cases = [case for case in _errors() if case[:2] == (format_name, phase)]
    assert len(cases) >= len(CALLS)
    for _, _, place, call, code in cases:
        # LMDB closes two of its own first, and says nothing; what it wrote was synced before.
        nth = 3 if call == "close" and place.endswith(".lmdb") else 1
        outcome = meet(format_name, call=call, text=place, nth=nth, action=code)
        where = f"{call} of {place}: {errno.errorcode[code]}: {outcome}"
        assert outcome["met"], where
        assert outcome["code"] == 1, where
        _check_said(outcome, os.strerror(code), place)
        assert outcome["temps"] == [], where
        _check_whole(outcome)


@pytest.mark.parametrize(("format_name", "phase"), PAIRS)
def test_killed_and_terminated(meet: Meet, format_name: str, phase: str) -> None:
    """A killed job must leave no half shard that counts as done: killed at each step of writing a
    file, data that was not synced is lost, as in a power cut.
    """
    for place in _places(format_name, phase):
        for call in CALLS if ALL else ("link",):
            outcome = meet(
                format_name,
                call=call, text=place, nth=1, action=-signal.SIGKILL, cut_temps=True,
            )  # fmt: skip
            assert (outcome["met"], outcome["code"]) == (True, -signal.SIGKILL), outcome
            assert not outcome["complete"]
            _check_whole(outcome)
        outcome = meet(format_name, call="sync", text=place, nth=1, action=-signal.SIGTERM)
        assert outcome["met"]
        assert outcome["code"] == 128 + signal.SIGTERM, outcome
        _check_said(outcome, "stopped by SIGTERM")
        assert outcome["temps"] == []
        _check_whole(outcome)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_worker_is_killed_once(meet: Meet, format_name: str) -> None:
    """The kernel kills a worker when memory is short; the run must neither hang nor lose a file."""
    outcome = meet(format_name, call="read", text="/1/2.jpg", nth=1, action=-signal.SIGKILL, jobs=2)
    assert (outcome["met"], outcome["code"], outcome["complete"]) == (True, 0, True), outcome
    _check_whole(outcome)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("open", errno.EIO),
        ("read", errno.EIO),
        ("open", errno.ENOENT),
        ("read", errno.ESTALE),
    ],
)
def test_a_file_of_the_source_cannot_be_read(meet: Meet, call: str, code: int, jobs: int) -> None:
    """Trouble with the storage is no reason to leave out a picture that is whole."""
    outcome = meet("tar", call=call, text="/1/2.jpg", nth=1, action=code, jobs=jobs)
    assert outcome["met"]
    if code == errno.ESTALE:  # once: a second look finds it
        assert outcome["code"] == 0, outcome
    else:
        assert outcome["code"] == 1, outcome
        _check_said(outcome, "/1/2.jpg", os.strerror(code))
        assert outcome["temps"] == []
    _check_whole(outcome)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_behind_standard_output(
    tmp_path: Path, photos: Path, preload: dict[str, str], code: int
) -> None:
    """On NFS, `packer cat … > file` meets a full disk when the file is synced."""
    script = (
        "import ctypes, sys\n"
        f"ctypes.CDLL(None).fault_arm(4, {os.fsencode(tmp_path / 'file')!r}, 1, {code})\n"
        "from packer.cli import _group\n"
        "sys.exit(_group.run(['recipes', 'list']))\n"
    )
    with (tmp_path / "file").open("w") as file:
        found = subprocess.run(
            [sys.executable, "-c", script],
            env=preload, stdout=file, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr == f"packer: {os.strerror(code)}\n"
