"""Everything that packer reads, damaged and forged: `scripts/fuzz.py`, for a short while.

Files that once led to a traceback, a signal, an endless loop or much memory are in `corpus`
and run first. PACKER_TEST_FUZZ=3600 in the environment makes it an hour, of other cases each day.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "scripts" / "fuzz.py"
KINDS = (
    *("manifest", "sealed-manifest", "index", "sealed-index", "plan", "state", "parts", "lock"),
    *("recipe", "config", "list", "tar", "zip"),
    *("jpeg", "png", "webp", "tiff", "bmp", "gif", "ppm"),
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does"),
]


def test_nothing_but_success_and_errors_of_one_line() -> None:
    seconds = float(os.environ.get("PACKER_TEST_FUZZ", "5"))
    seed = int(time.time()) // 86400 if "PACKER_TEST_FUZZ" in os.environ else 0
    command = [sys.executable, str(SCRIPT), "--json", "--seed", str(seed)]
    command += ["--seconds", str(seconds), "--corpus", str(HERE / "corpus"), "--no-keep"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 300, check=False
    )
    value = json.loads(done.stdout)
    assert {kind: found for kind, found in value["findings"].items() if found} == {}
    assert done.returncode == 0
    assert value["kinds"].keys() - {"avif"} == {*KINDS}  # not every OpenCV writes it
    assert value["corpus"] == sum(path.is_file() for path in (HERE / "corpus").rglob("*"))
    for kind, counts in value["kinds"].items():
        assert sum(counts.values()) >= 5, kind  # how many more depends on the machine


@pytest.mark.parametrize("harm", ["signal", "endless", "memory", "traceback", "lines", "fine"])
def test_each_harm_is_seen(harm: str) -> None:
    """What a fuzzer does not see, it does not find."""
    code = f"""
import ctypes, os, sys, time
sys.path.insert(0, {str(SCRIPT.parent)!r})
from fuzzing import child
from packer.errors import DamageError
child.PATIENCE = 1.0
def case(data, folder):
    if data != b"harm":
        return
    {{
        "signal": lambda: ctypes.string_at(8),
        "endless": lambda: time.sleep(60),
        "memory": lambda: bytearray(3 << 30),
        "traceback": lambda: [][0],
        "lines": lambda: (_ for _ in ()).throw(DamageError("a\\nb")),
        "fine": lambda: (_ for _ in ()).throw(DamageError("a")),
    }}[{harm!r}]()
outcomes = child.Outcomes()
child.run_cases(case, iter([b"a", b"harm", b"b"]), outcomes)
print(dict(outcomes.counts))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    seen = {
        "signal": "found: signal SIGSEGV",
        "endless": "found: more than 1 s",
        "memory": "found: MemoryError",
        "traceback": "found: IndexError",
        "lines": "found: DamageError of several lines",
        "fine": "refused: DamageError",
    }
    assert done.stdout == f"{ ({'ok': 2, seen[harm]: 1}) }\n"
