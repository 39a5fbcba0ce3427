"""Run conversions that meet a fault, in a process that has shim.c preloaded.

    driver.py SOURCE FOLDER FORMAT

Reads cases from standard input, one JSON object a line. For each case it converts with the fault,
examines the remaining files, runs the same command again, and writes one JSON line: see `Outcome`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from packer import convert, merge, registry
from packer.cli import _group, _reporter

assert convert and merge and _reporter, "imported here, so that forked runs need not"

LINKS = (
    "hard",
    "none between",
    "no permission",
    "not there",
    "symbolic between",
    "no rename either",
)
CALLS = ("", "open", "read", "write", "sync", "close", "link", "unlink")


@dataclasses.dataclass
class Case:
    """A fault: the `nth` call `call` on a path that contains `text` meets `action`, an errno or
    minus a signal. Links are of the kind `links`, in the run after it too.
    """

    call: str
    text: str
    nth: int
    action: int
    jobs: int = 1
    cut_temps: bool = False
    links: str = "hard"
    arguments: tuple[str, ...] = ()


@dataclasses.dataclass
class Outcome:
    """What happened.

    Attributes:
        met: Whether the fault was met.
        code: Exit code of the run that met it; minus the signal that ended it.
        said: Its standard error.
        complete: Whether there is a manifest after it.
        temps: Temp files that are left after it.
        again: Exit code of the same command after it.
        said_again: Its standard error.
        rewritten: Finished shards that it wrote again.
        differing: Files of the pack that differ from those of an undisturbed run.
        left: What is in OUT/.packer at the end.
    """

    met: bool
    code: int
    said: str
    complete: bool
    temps: list[str]
    again: int
    said_again: str
    rewritten: list[str]
    differing: list[str]
    left: list[str]


class Driver:
    """All cases of one format."""

    def __init__(self, source: str, folder: str, format_name: str) -> None:
        self._shim = ctypes.CDLL(None)
        self._folder = Path(folder)
        self._extension = registry.load("formats", format_name).EXTENSION
        self._command = [
            "convert", source, "--resize", "24", "--batch-size", "4", "--shard-size", "1B",
            "--format", format_name, "--quiet",
        ]  # fmt: skip
        whole = self._folder / "whole"
        code, said = self._run(Case("", "", 0, 0), whole)
        assert code == 0, said
        self._expected = digests(whole)

    def run(self, case: Case) -> Outcome:
        """One case."""
        out = self._folder / "pack"
        code, said = self._run(case, out)
        met = self._shim.fault_seen() >= case.nth
        temps = [path.name for path in out.glob(".packer/*.tmp")]
        if case.cut_temps:
            for name in temps:
                os.truncate(out / ".packer" / name, 0)
        complete = (out / "manifest.json").exists()
        kept = {path: identity(path) for path in out.glob(f"*-0*.{self._extension}")}
        again, said_again = self._run(dataclasses.replace(case, call=""), out)
        found = digests(out)
        names = sorted(found.keys() | self._expected.keys())
        outcome = Outcome(
            met=met,
            code=code,
            said=said,
            complete=complete,
            temps=temps,
            again=again,
            said_again=said_again,
            rewritten=[path.name for path, was in kept.items() if identity(path) != was],
            differing=[name for name in names if found.get(name) != self._expected.get(name)],
            left=sorted(path.name for path in out.glob(".packer/*")),
        )
        shutil.rmtree(out, ignore_errors=True)
        return outcome

    def _run(self, case: Case, out: Path) -> tuple[int, str]:
        """The command, in a child process; with the fault, if it has a call."""
        command = [*self._command, "--out", str(out), "--jobs", str(case.jobs), *case.arguments]
        said = self._folder / "stderr"
        child = os.fork()
        if child == 0:
            end_with(lambda: self._child(case, command, said))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, said.read_text(encoding="utf-8")

    def _child(self, case: Case, command: list[str], said: Path) -> int:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
        sys.stderr = said.open("w", encoding="utf-8", buffering=1)
        text = os.fsencode(case.text)
        self._shim.fault_links(LINKS.index(case.links))
        self._shim.fault_arm(CALLS.index(case.call), text, case.nth, case.action)
        code = _group.run(command)
        return code


def end_with(function: Callable[[], int]) -> None:
    """End this forked process with what a function returns, whatever happens in it."""
    code = 99
    try:
        code = function()
    finally:
        sys.stderr.flush()
        os._exit(code)


def identity(path: Path) -> tuple[int, int] | None:
    """Tells whether a file was written anew."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def digests(folder: Path) -> dict[str, str]:
    """Of all files of a pack but the unfinished ones."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*"))
        if path.is_file() and not path.is_symlink()
    }


def main() -> None:
    """Answer one line with one."""
    driver = Driver(*sys.argv[1:])
    print("ready", flush=True)
    for line in sys.stdin:
        outcome = driver.run(Case(**json.loads(line)))
        print(json.dumps(dataclasses.asdict(outcome)), flush=True)


if __name__ == "__main__":
    main()
