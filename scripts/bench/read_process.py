"""Run a reader for `bench_read.py`: a process that answers requests, and is stopped in between."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

#: Longest time for an answer in seconds: a peer compiles for 20 s on an idle machine.
ANSWER_SECONDS = 180.0


class ReaderFailed(Exception):
    """A reader ended, or did not answer."""


@dataclass(frozen=True)
class Place:
    """The data to read, and the number of workers.

    Attributes:
        data: The folder with the containers of all readers.
        task: "train", "center" or "raw".
        workers: Number of threads or processes.
        scratch: Folder in which each reader has its own, for stderr and as TMPDIR.
    """

    data: Path
    task: str
    workers: int
    scratch: Path


class Reader:
    """A running reader, with all of the processes that it starts (a session of its own).

    Args:
        name: Name of the reader.
        command: Command with {data}, {task} and {workers} to be filled in.
        place: Their values.

    Raises:
        ReaderFailed: The reader ended, or did not answer in time.
    """

    def __init__(self, name: str, command: list[str], place: Place) -> None:
        values = {
            "{data}": str(place.data),
            "{task}": place.task,
            "{workers}": str(place.workers),
        }
        self.name = name
        self.command = [_filled(word, values) for word in command]
        # A short name: paths of sockets in a TMPDIR have at most 108 bytes.
        folder = Path(tempfile.mkdtemp(dir=place.scratch))
        (folder / "tmp").mkdir()
        self._stderr = folder / "stderr"
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                env=_environment(folder / "tmp"),
                start_new_session=True,
            )
        self._pending = b""
        self.versions: dict[str, str] = self._answer()["versions"]

    def ask(self, **request: Any) -> dict[str, Any]:
        """Let it run for one request, and return its answer, with `cpu`: the CPU seconds of all of
        its processes meanwhile. Then stop it: no reader may read ahead while another one is
        measured.
        """
        os.killpg(self._process.pid, signal.SIGCONT)
        before = self._cpu_seconds()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("ended") from None
        answer = self._answer()
        answer["cpu"] = self._cpu_seconds() - before
        os.killpg(self._process.pid, signal.SIGSTOP)
        return answer

    def end(self) -> None:
        """Kill all of its processes, once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # all have ended already
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def _answer(self) -> dict[str, Any]:
        """Return the next JSON object; libraries may print other lines while they are imported."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            line = self._line(deadline)
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(deadline - time.monotonic()):
                    raise self._failed(f"no answer within {ANSWER_SECONDS:.0f} s")
                more = os.read(self._process.stdout.fileno(), 65536)
                if not more:
                    raise self._failed("ended")
                self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _failed(self, what: str) -> ReaderFailed:
        self.end()
        lines = self._stderr.read_text(errors="replace").splitlines()[-20:]
        return ReaderFailed("\n".join([f"{self.name}: {what}", shlex.join(self.command), *lines]))

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of the running processes, and of ended ones that they waited
        for.
        """
        ticks = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    # proc_pid_stat(5), after the name, which may hold spaces: the session is field
                    # 6, the times of a process and of its dead children are 14 to 17.
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                except (FileNotFoundError, ProcessLookupError):  # has ended meanwhile
                    continue
                if int(fields[3]) == self._process.pid:
                    ticks += sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


def _environment(temporary: Path) -> dict[str, str]:
    """Return the environment of a reader: one thread per process, and `bench` on the path."""
    return {
        **{name: text for name, text in os.environ.items() if not name.startswith("PACKER_")},
        "PYTHONPATH": str(Path(__file__).absolute().parents[1]),
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(temporary),
    }
