"""Conversions if the system refuses processes, threads, semaphores or memory.

Limits and processes are real. Each run must end, and one line must name the limit.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.packing.workers.limits import is_memory_refusal, is_thread_refusal, why_refused
from packer.reporting import Reporter
from packer.verify import VerifyOptions, verify_pack
from tests.fixtures import Digest, MakeTree

pytestmark = pytest.mark.slow


PACKER = (sys.executable, "-m", "packer")
#: A user id without processes on any machine; each of xdist's processes has another, as the limit
#: counts all processes of a user.
USER = str(54321 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))


class _Warnings(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said.append(text)


def _convert(source: Path, out: Path, *before: str) -> subprocess.CompletedProcess[str]:
    """With two worker processes, if they can be had."""
    command = [*before, *PACKER, "convert", str(source), "-o", str(out), "-j2", "--progress=none"]
    return subprocess.run(
        [*command, "--batch-size=4", "--quiet"],
        cwd="/", env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


SHM = {
    "full": "mount -t tmpfs -o size=64k none /dev/shm && head -c 65536 /dev/zero >/dev/shm/x",
    "read-only": "mount -t tmpfs -o ro none /dev/shm",
    "missing": "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod /dev/urandom c 1 9",
}


@pytest.mark.parametrize("state", SHM)
def test_without_room_for_semaphores(
    make_tree: MakeTree, tmp_path: Path, digest_tree: Digest, state: str
) -> None:
    apart = ["unshare", "--mount", "bash", "-c"]
    if shutil.which("unshare") is None or subprocess.call([*apart, SHM[state]]) != 0:
        pytest.skip("may not mount a /dev/shm of its own here")
    source = make_tree(each=8)
    inside = [*apart, f'{SHM[state]}; exec "$@"', "bash"]
    found = _convert(source, tmp_path / "pack", *inside)
    assert found.returncode == 0, found.stderr
    [line] = found.stderr.splitlines()
    assert "warning: 2 worker processes cannot be started: /dev/shm" in line
    assert _convert(source, tmp_path / "whole").stderr == ""
    assert digest_tree(tmp_path / "pack") == digest_tree(tmp_path / "whole")
    verify = [*inside, *PACKER, "verify", "--decode", "-j2", str(tmp_path / "pack")]
    checked = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=100)
    assert (checked.returncode, "/dev/shm" in checked.stderr) == (0, True), checked.stderr


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may write to; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.mark.parametrize("most", [1, 4, 6, 9])
def test_at_the_limit_of_processes(make_tree: MakeTree, open_folder: Path, most: int) -> None:
    """Between none at all and enough for all: processes, then loky's threads are refused."""
    other = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]
    look = [*other, sys.executable, "-c", "import packer.convert"]
    if os.getuid() != 0 or shutil.which("setpriv") is None or shutil.which("prlimit") is None:
        pytest.skip("needs root, setpriv and prlimit: the limit does not bind root itself")
    if subprocess.run(look, cwd="/", capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run this Python")
    source = shutil.copytree(make_tree(each=8), open_folder / "photos")
    found = _convert(source, open_folder / "pack", "prlimit", f"--nproc={most}", *other)
    assert found.returncode == 0, found.stderr
    assert (open_folder / "pack" / "manifest.json").exists()
    lines = found.stderr.splitlines()
    assert len(lines) <= 2
    assert all(f"ulimit -u: {most}, this user has " in line for line in lines)
    if most == 1:
        assert lines[0].endswith("the work is done in threads of this process")
        assert lines[1].endswith("the work is done by this thread alone")


@pytest.mark.parametrize("kilobytes", [300_000, 500_000])
def test_without_memory_for_a_picture_or_a_library(
    make_tree: MakeTree, tmp_path: Path, kilobytes: int
) -> None:
    """No picture is left out because memory is short."""
    source = make_tree(classes=1, each=2)
    pixels = np.zeros((8000, 8000, 3), np.uint8)
    cv2.imwrite(str(source / "001.class0" / "large.png"), pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    limited = ["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash"]
    found = _convert(source, tmp_path / "pack", *limited)
    assert found.returncode == 1, found.stderr
    lines = found.stderr.splitlines()
    assert (len(lines), "memory" in lines[0], "memory" in lines[1]) == (2, True, True), lines
    assert f"ulimit -v: {kilobytes} kB" in lines[0] or "large.png: " in lines[0]
    assert not (tmp_path / "pack" / "manifest.json").exists()


def _in_this_process(folders: tuple[Path, Path]) -> tuple[list[str], list[str]]:
    source, out = folders
    reporter = _Warnings()
    convert_dataset(source, out, ConvertOptions(jobs=2, batch_size=4), reporter=reporter)
    checked = verify_pack(out, VerifyOptions(decode=True, jobs=2), reporter=reporter)
    return reporter.said, checked.damage


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_a_daemonic_process(
    make_tree: MakeTree, tmp_path: Path, digest_tree: Digest, method: str
) -> None:
    """As in multiprocessing.Pool, Celery and Airflow."""
    source = make_tree(each=8)
    with multiprocessing.get_context(method).Pool(1) as pool:
        [(said, damage)] = pool.map(_in_this_process, [(source, tmp_path / "pack")])
    assert damage == []
    assert said
    assert all("this is a daemonic process" in line for line in said)
    convert_dataset(source, tmp_path / "whole", ConvertOptions(jobs=1, batch_size=4))
    assert digest_tree(tmp_path / "pack") == digest_tree(tmp_path / "whole")


def test_in_a_worker_of_joblib(make_tree: MakeTree, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from joblib import Parallel, delayed\n"
        "from packer.convert import ConvertOptions, convert_dataset\n"
        "def make(source, out): return convert_dataset(source, out, ConvertOptions(jobs=2)).out\n"
        "if __name__ == '__main__':\n"
        "    task = delayed(make)(*map(Path, sys.argv[1:]))\n"
        "    print(Parallel(2)([task])[0])\n"
    )
    command = [sys.executable, "-c", script, str(make_tree(each=4)), str(tmp_path / "pack")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert found.stdout == f"{tmp_path}/pack\n"


def test_in_another_thread_than_the_main_one(make_tree: MakeTree, tmp_path: Path) -> None:
    """Where no handler of a signal can be set."""
    outcomes: list[tuple[list[str], list[str]]] = []
    source = make_tree(each=4)
    thread = threading.Thread(
        target=lambda: outcomes.append(_in_this_process((source, tmp_path / "pack")))
    )
    thread.start()
    thread.join()
    assert outcomes == [([], [])]


def test_a_script_from_standard_input(make_tree: MakeTree, tmp_path: Path) -> None:
    """Its main module has no file, as in a notebook; another thread forbids a fork."""
    script = (
        "import sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "from packer.convert import ConvertOptions, convert_dataset\n"
        "print(convert_dataset(*sys.argv[1:], ConvertOptions(jobs=2)).out)\n"
    )
    command = [sys.executable, "-", str(make_tree(each=4)), str(tmp_path / "pack")]
    found = subprocess.run(
        command, input=script, capture_output=True, text=True, check=True, timeout=100
    )
    assert (found.stdout, found.stderr) == (f"{tmp_path}/pack\n", "")


def test_limits_are_named() -> None:
    refused = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert why_refused(refused).startswith("Too many open files (ulimit -n: ")
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (4000, hard))
    try:
        said = why_refused(BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    assert "ulimit -u: 4000, this user has " in said
    assert is_thread_refusal(RuntimeError("can't start new thread"))
    assert not is_thread_refusal(RuntimeError("another one"))
    assert is_memory_refusal(ImportError("libx.so: failed to map segment from shared object"))
    assert not is_memory_refusal(ImportError("no module"))
