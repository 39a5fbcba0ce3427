"""Run cases in a child process with little memory, and record how each ended: a signal, an endless
loop and an allocation of gigabytes end the child alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import select
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from packer.errors import PackerError

#: Memory in bytes that a child may use in addition to its parent's.
ROOM = 2 << 30
#: Seconds that one case may take. Most take a few milliseconds; the machine may be busy.
PATIENCE = 30.0

#: One case: its bytes, and a folder to work in. Its exception is the outcome.
Case = Callable[[bytes, Path], None]


@dataclass
class Outcomes:
    """How cases ended.

    Attributes:
        counts: "ok", "refused: DamageError" and so on, and "found: …" for findings.
        findings: A line for each finding, and the smallest input that led to it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, bytes] = field(default_factory=dict)

    def add(self, outcome: str, data: bytes) -> None:
        """Count a case."""
        kind, _, detail = outcome.partition(" at ")
        self.counts[kind] += 1
        if kind.startswith("found"):
            line = f"{kind} at {detail}" if detail else kind
            if len(data) < len(self.findings.get(line, data + b"+")):
                self.findings[line] = data


def run_cases(
    case: Case, inputs: Iterator[bytes], outcomes: Outcomes, until: float = math.inf
) -> None:
    """Run cases in as many children as needed, until none is left or the time is up.

    Args:
        case: Runs one case.
        inputs: The inputs of the cases.
        outcomes: Counts their outcomes.
        until: Time by `time.monotonic`; no case starts later.
    """
    left = list(inputs)
    while left and time.monotonic() < until:
        left = left[_run_child(case, left, outcomes, until) :]


def _run_child(case: Case, inputs: list[bytes], outcomes: Outcomes, until: float) -> int:
    """Run cases in one child, until all are done or it ends; return the number of cases."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _be_child(case, inputs, writing, Path(folder), until)
        os.close(writing)
        done, pending, timed_out = 0, b"", False
        while True:
            if not select.select([reading], [], [], PATIENCE)[0]:
                timed_out = True
                os.kill(child, signal.SIGKILL)
                break
            got = os.read(reading, 1 << 16)
            if not got:
                break
            *lines, pending = (pending + got).split(b"\n")
            for line in lines:
                outcomes.add(json.loads(line), inputs[done])
                done += 1
        os.close(reading)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit {status}"
        how = f"more than {PATIENCE:.0f} s" if timed_out else how
        digest = hashlib.sha256(inputs[done]).hexdigest()[:8]
        outcomes.add(f"found: {how} at {digest}", inputs[done])
        done += 1
    return done


def _be_child(case: Case, inputs: list[bytes], writing: int, folder: Path, until: float) -> None:
    """Run cases, one line of JSON for each, and end this process."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.chdir(folder)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for data in inputs:
            if time.monotonic() >= until:
                break
            line = json.dumps(_outcome(case, data, folder)).encode()
            os.write(writing, line + b"\n")
        os._exit(0)
    except BaseException:
        os._exit(99)


def _outcome(case: Case, data: bytes, folder: Path) -> str:
    try:
        case(data, folder)
    except PackerError as error:
        if "\n" in f"{error.message}{error.hint}" or not 1 <= error.exit_code <= 4:
            return f"found: {type(error).__name__} of several lines at {_place(error)}"
        return f"refused: {type(error).__name__}"
    except click.ClickException as error:
        return f"refused: {type(error).__name__}"
    except BaseException as error:
        return f"found: {type(error).__name__} at {_place(error)}"
    return "ok"


def _place(error: BaseException) -> str:
    """Return the last line of packer's code that led to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}packer{os.sep}" in frame.filename]
    if not ours:
        return "the fuzzer"
    last = ours[-1]
    name = last.filename.rpartition(f"{os.sep}packer{os.sep}")[2]
    return f"packer/{name}:{last.lineno} ({last.name})"
