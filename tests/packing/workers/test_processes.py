import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from packer.errors import MissingDependency
from packer.packing.workers.processes import (
    ProcessWorkers,
    ThreadWorkers,
    require_joblib,
)


def _blocked(task: int) -> list[str]:
    status = Path("/proc/self/status").read_text().splitlines()
    return [line.split()[1] for line in status if line.startswith("SigBlk")]


def _sleep(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_processes_never_see_the_signals_of_the_terminal() -> None:
    workers = ProcessWorkers(1, 3)
    [mask] = workers.result(workers.submit(_blocked, 0))
    workers.stop()
    for number in (signal.SIGINT, signal.SIGTERM):
        assert int(mask, 16) >> (number - 1) & 1
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}


def test_a_dead_process_is_noticed() -> None:
    workers = ProcessWorkers(2, 6)
    pid = workers.result(workers.submit(_sleep, 0.0))
    assert not workers.lost()
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while not workers.lost() and time.monotonic() < end:
        time.sleep(0.01)
    assert workers.lost()
    workers.stop()


def test_stopping_does_not_wait_for_processes() -> None:
    workers = ProcessWorkers(2, 6)
    workers.submit(_sleep, 0.0).result()
    futures = [workers.submit(_sleep, 60.0) for _ in range(8)]
    start = time.monotonic()
    workers.stop()
    assert time.monotonic() - start < 10
    assert all(future.done() for future in futures)


def test_threads_are_not_lost() -> None:
    workers = ThreadWorkers(2)
    assert workers.result(workers.submit(_sleep, 0.0)) == os.getpid()
    assert not workers.lost()
    workers.stop()


def test_workers_end_with_a_parent_that_is_killed() -> None:
    script = (
        "import time\n"
        "from packer.packing.workers.processes import ProcessWorkers\n"
        "workers = ProcessWorkers(2, 6)\n"
        "workers.submit(abs, -1).result()\n"
        "print(*workers.process_ids(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pids = [int(pid) for pid in run.stdout.readline().split()]
        run.kill()
    assert pids
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("pgrep", [False, True])
def test_without_psutil_and_pgrep_joblib_cannot_end_its_workers(
    pgrep: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would print a traceback for each, on images without procps."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    if pgrep:
        (tmp_path / "pgrep").write_text("#!/bin/sh\n")
        (tmp_path / "pgrep").chmod(0o755)
        require_joblib()
        return
    with pytest.raises(MissingDependency, match=r"needs psutil.* -m pip install psutil; or use"):
        require_joblib()
