"""Conversions on a real dask cluster on this machine: a scheduler and two workers of one thread.

Workers load a script that makes them fail as machines fail; files in a folder select the failure.
All tests use the command line, with warnings as errors.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from packer import registry
from packer.convert import ConvertOptions, convert_dataset
from tests.fixtures import Digest, MakeTree

pytestmark = pytest.mark.cluster


needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
)
#: The same options as command line and as `ConvertOptions`: several shards of a few batches.
SMALL = ("--resize", "48", "--batch-size", "4", "--shard-size", "16kB")
OPTIONS: dict[str, object] = {
    "resize": "48", "batch_size": 4, "shard_size": 16_000, "backend": "sequential",
}  # fmt: skip
SECONDS = 40.0
PRELOAD = """
import os, signal, time
from pathlib import Path
from packer.packing.cluster import remote

orders = Path(os.environ["TEST_ORDERS"])
if remote.make_batch.__name__ != "made":  # else dask loads this a second time
    make_batch, versions = remote.make_batch, remote.all_versions

done = []

def made(task):
    (orders / f"at-{os.getpid()}").touch()
    done.append(task)
    while len(done) > passing():
        time.sleep(0.02)
    poison = orders / "poison"
    if poison.exists() and any(poison.read_bytes() in slot.path for slot in task.slots):
        os.kill(os.getpid(), signal.SIGKILL)
    return make_batch(task)

def passing():
    try:
        return int((orders / "wait").read_text() or 0)
    except FileNotFoundError:
        return 1e9

def seen(plugins):
    other = {"packer": "0.0.9"} if (orders / "old").exists() else {}
    return {**versions(plugins), **other}

remote.make_batch, remote.all_versions = made, seen
"""


class Cluster:
    """A scheduler and its workers, each with the nanny that starts it again."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self.orders = place / "orders"
        self.orders.mkdir(parents=True)
        (place / "preload.py").write_text(PRELOAD)
        self.file = place / "scheduler.json"
        self._place = place
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", self.file
        )
        _wait(self.file.exists)
        for number in range(workers):
            self._start(
                "worker", "--scheduler-file", self.file, "--nthreads", "1", "--nworkers", "1",
                "--preload", place / "preload.py", "--local-directory", place / f"local{number}",
            )  # fmt: skip

    def _start(self, kind: str, *arguments: object) -> subprocess.Popen[bytes]:
        with (self._place / f"{kind}{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, "--no-dashboard", *map(str, arguments)],
                env={**os.environ, "TEST_ORDERS": str(self.orders)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def order(self, name: str, content: str = "") -> None:
        """wait: before any batch but the first N; poison: die at a path; old: another packer."""
        (self.orders / name).write_text(content)

    def clear(self) -> None:
        for path in self.orders.iterdir():
            path.unlink()

    def at_work(self) -> list[int]:
        """Process ids of workers that began a batch since the last `clear`."""
        return [int(path.name.removeprefix("at-")) for path in self.orders.glob("at-*")]

    def stop(self) -> None:
        for process in self._processes[1:]:  # first the workers, which else look for a scheduler
            process.terminate()
        for process in reversed(self._processes):
            if process is self.scheduler:
                process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def command(self, source: Path, out: Path, *more: str) -> list[str]:
        return [
            sys.executable, "-W", "error", "-m", "packer", "convert", str(source), "-o", str(out),
            *SMALL, "--backend", "dask", "--scheduler", str(self.file), *more,
        ]  # fmt: skip

    def start(self, source: Path, out: Path, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(source, out, *more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def _wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def _end(run: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit code, and what was said on stderr as errors."""
    _, said = run.communicate(timeout=SECONDS)
    assert "Traceback" not in said, said
    return run.returncode, said.splitlines()


def _succeeds(run: subprocess.Popen[str]) -> None:
    """With the one warning of the picture that is broken."""
    code, said = _end(run)
    assert code == 0, said
    assert [line.partition(", ")[0] for line in said] == ["packer: warning: 1 picture skipped"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """The same for all tests, with no orders left."""
    running.clear()
    yield running
    running.clear()


@pytest.fixture
def tree(make_tree: MakeTree) -> Path:
    """64 pictures and a broken one."""
    tree = make_tree(classes=4, each=16)
    whole = (tree / "001.class0" / "001_0001.jpg").read_bytes()
    (tree / "002.class1" / "broken.jpg").write_bytes(whole[: len(whole) * 6 // 10])
    return tree


@pytest.fixture
def expected(tree: Path, tmp_path: Path, digest_tree: Digest) -> dict[str, str]:
    """Digests of the pack as this machine makes it."""
    options = ConvertOptions(**OPTIONS)  # type: ignore[arg-type]
    convert_dataset(tree, tmp_path / "expected", options)
    return digest_tree(tmp_path / "expected")


@needs_dask
@pytest.mark.parametrize("format_name", registry.names("formats"))
def test_same_bytes_as_on_this_machine(
    cluster: Cluster, tree: Path, tmp_path: Path, digest_tree: Digest, format_name: str
) -> None:
    options = ConvertOptions(**{**OPTIONS, "format": format_name})  # type: ignore[arg-type]
    convert_dataset(tree, tmp_path / "expected", options)
    _succeeds(cluster.start(tree, tmp_path / "pack", "--format", format_name, "-q"))
    assert digest_tree(tmp_path / "pack") == digest_tree(tmp_path / "expected")


@needs_dask
def test_a_shard_of_a_killed_worker_is_made_by_another(
    cluster: Cluster, tree: Path, tmp_path: Path, digest_tree: Digest, expected: dict[str, str]
) -> None:
    cluster.order("wait")
    run = cluster.start(tree, tmp_path / "pack", "-q")
    _wait(lambda: len(cluster.at_work()) == 2)
    os.kill(cluster.at_work()[0], signal.SIGKILL)
    (cluster.orders / "wait").unlink()
    _succeeds(run)
    assert digest_tree(tmp_path / "pack") == expected


@needs_dask
def test_a_deadly_shard_is_named_and_all_others_are_made(
    cluster: Cluster, tree: Path, tmp_path: Path, digest_tree: Digest, expected: dict[str, str]
) -> None:
    """A task that kills its worker hung the run; dask gives up on it after four workers, and the
    next run goes on.
    """
    cluster.order("poison", "001_0003.jpg")
    code, said = _end(cluster.start(tree, tmp_path / "pack", "-q"))
    assert code == 1
    assert len(said) == 2
    assert re.search(r"/train-\d{6}\.tar: workers died .* while at 00\d\.class\d/\d+.*jpg", said[0])
    made = len(list((tmp_path / "pack").glob("*.tar")))
    assert made == sum(name.endswith(".tar") for name in expected) - 1
    assert f"; {made} other shards are made" in said[0]
    cluster.clear()
    _succeeds(cluster.start(tree, tmp_path / "pack", "-q"))
    assert digest_tree(tmp_path / "pack") == expected


@needs_dask
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_takes_the_tasks_back(
    cluster: Cluster, tree: Path, tmp_path: Path, number: int, code: int
) -> None:
    cluster.order("wait")
    run = cluster.start(tree, tmp_path / "pack", "-q")
    _wait(cluster.at_work)
    run.send_signal(number)
    assert _end(run)[0] == code
    assert not list((tmp_path / "pack" / ".packer").glob("lock-*"))
    (cluster.orders / "wait").unlink()
    # Workers in the middle of a shard notice that the run has ended, and remove their files.
    _wait(lambda: not list((tmp_path / "pack" / ".packer").glob("*.tmp")))
    assert not list((tmp_path / "pack").glob("*.tar"))


@needs_dask
def test_too_many_skips_stop_the_run(cluster: Cluster, tree: Path, tmp_path: Path) -> None:
    code, said = _end(cluster.start(tree, tmp_path / "pack", "--max-skipped", "0", "-q"))
    assert code == 3
    assert "1 of 65 pictures skipped, 0 allowed" in said[0]
    _succeeds(cluster.start(tree, tmp_path / "pack", "--max-skipped", "1", "-q"))


@needs_dask
def test_an_error_of_a_worker_arrives_as_itself(
    cluster: Cluster, tree: Path, tmp_path: Path
) -> None:
    code, said = _end(cluster.start(tree, tmp_path / "pack", "--on-error", "fail", "-q"))
    assert code == 1
    assert said[0].startswith("packer: 002.class1/broken.jpg: truncated")


@needs_dask
def test_workers_with_other_versions_are_refused(
    cluster: Cluster, tree: Path, tmp_path: Path
) -> None:
    cluster.order("old")
    code, said = _end(cluster.start(tree, tmp_path / "pack", "-q"))
    assert code == 2
    assert f"worker on {os.uname().nodename} (process " in said[0]
    assert 'packer "0.0.9" instead of "' in said[0]
    assert not cluster.at_work()
    assert not list((tmp_path / "pack").glob("*.tar"))


@needs_dask
def test_a_lost_scheduler_ends_the_run_and_any_other_goes_on(
    tree: Path, tmp_path: Path, digest_tree: Digest, expected: dict[str, str]
) -> None:
    own = Cluster(tmp_path / "cluster", workers=1)
    try:
        own.order("wait", "10")  # of 17 batches
        run = own.start(tree, tmp_path / "pack", "-q")
        _wait(lambda: list((tmp_path / "pack").glob("*.tar")))
        own.scheduler.kill()
        code, said = _end(run)
        own.clear()
    finally:
        own.stop()
    assert code == 1
    assert len(said) == 2
    assert "the connection to the dask scheduler was lost" in said[0]
    assert not (tmp_path / "pack" / "manifest.json").exists()
    options = ConvertOptions(**OPTIONS)  # type: ignore[arg-type]
    convert_dataset(tree, tmp_path / "pack", options)
    assert digest_tree(tmp_path / "pack") == expected


IMPATIENT = """
import sys
from packer.packing.cluster import scheduler
scheduler._CONNECT_SECONDS = 0.5
from packer.__main__ import main
main()
"""


@needs_dask
def test_a_scheduler_that_does_not_answer_is_named(tree: Path, tmp_path: Path) -> None:
    """In a process of its own: dask's threads stay, and tests that fork want none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    pack = tmp_path / "pack"
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        IMPATIENT,
        "convert",
        str(tree),
        "-o",
        str(pack),
    ]
    command += ["--backend", "dask", "--scheduler", address]
    run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == 1
    assert f"{address}: no dask scheduler answers: " in run.stderr
    assert "Traceback" not in run.stderr
    assert [path.name for path in (pack / ".packer").iterdir()] == ["plan.json"]
