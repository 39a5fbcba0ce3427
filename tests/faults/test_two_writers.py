"""Two runs on one folder through two views of it: two NFS mounts of it where there are some.

NFS_TEST_MOUNTS=/mnt/one:/mnt/two names two mount points of the same exported folder, best those of
two clients; without it the second view is a link.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import InUse
from packer.packing.lock import Lock, Timing
from tests.fixtures import Digest, MakeTree

pytestmark = pytest.mark.faults


MOUNTS = os.environ.get("NFS_TEST_MOUNTS", "")
#: So that a dead holder is waited for half a second.
TIMING = Timing(renew=0.1, patience=5, first=5)
#: One that lives is seen at its next renewal, however busy the machine is.
PATIENT = Timing(renew=0.1, patience=600, first=600)

_HOLD = """
import sys, time
from pathlib import Path
from packer.packing.lock import Lock, Timing
with Lock(Path(sys.argv[1]), None, "SLURM job 7", timing=Timing(0.1, 5, 5)) as lock:
    lock.keep_alive()
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["link", "nfs"])
def views(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """One empty folder under two names."""
    if request.param == "link":
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        yield tmp_path / "real", tmp_path / "link"
        return
    if not MOUNTS:
        pytest.skip("NFS_TEST_MOUNTS names no two mount points of one folder")
    one, two = (Path(mount) / f"packer-{uuid.uuid4().hex}" for mount in MOUNTS.split(":"))
    one.mkdir()
    assert two.parent.joinpath(one.name).is_dir(), "not two mount points of one folder"
    yield one, two.with_name(one.name)
    shutil.rmtree(one)


@pytest.mark.parametrize("last", ["killed", "stopped"])
def test_a_holder_with_other_process_numbers_is_judged_by_its_heartbeat(
    views: tuple[Path, Path], last: str
) -> None:
    """A process-number space of its own, as on another machine."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("may not make a space of process numbers here")
    folders = [view / "work" for view in views]
    folders[0].mkdir()
    process = subprocess.Popen(
        [*apart, sys.executable, "-c", _HOLD, str(folders[0])],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        for _ in range(2):
            with pytest.raises(InUse, match="SLURM job 7, since"):
                Lock(folders[1], None, timing=PATIENT).__enter__()
        os.killpg(process.pid, signal.SIGKILL if last == "killed" else signal.SIGSTOP)
        with Lock(folders[1], None, timing=TIMING) as lock:
            lock.confirm()
            if last == "stopped":  # it comes back, and finds its lock taken
                os.killpg(process.pid, signal.SIGCONT)
                time.sleep(5 * TIMING.renew)
                lock.confirm()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert not list(folders[0].iterdir())


def _command(tree: Path, out: Path) -> list[str]:
    return [
        sys.executable, "-m", "packer", "convert", os.fspath(tree), "--out", os.fspath(out),
        "--resize", "128", "--batch-size", "4", "--shard-size", "40kB", "--jobs", "1", "--quiet",
    ]  # fmt: skip


def _stopped_after(shards: int, command: list[str], out: Path) -> subprocess.Popen[str]:
    """A run that stands still, as under SIGSTOP or a suspended job, after some shards."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while len(list(out.glob("*.tar"))) < shards:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    return process


@pytest.mark.parametrize("meanwhile", ["finished", "half-way"])
def test_a_run_that_lost_its_lock_harms_nothing(
    views: tuple[Path, Path],
    tmp_path: Path,
    make_tree: MakeTree,
    digest_tree: Digest,
    meanwhile: str,
) -> None:
    tree = make_tree(classes=3, each=60, size=160)
    options = ConvertOptions(resize="128", batch_size=4, shard_size=40_000, jobs=1)
    convert_dataset(tree, tmp_path / "whole", options)
    out = views[0] / "pack"
    first = _stopped_after(2, _command(tree, out), out)
    (out / ".packer" / "lock-all").unlink()  # as one does to whom is told to, or a taker
    other = _command(tree, views[1] / "pack")
    if meanwhile == "finished":
        assert subprocess.run(other, check=False).returncode == 0
        second = None
    else:
        second = _stopped_after(5, other, out)
    first.send_signal(signal.SIGCONT)
    said = first.communicate(timeout=60)[1]
    if second is None:  # the pack is complete, and the one that was asked for
        assert (first.returncode, said) == (0, "")
    else:
        assert first.returncode == 1
        assert "this run's lock was taken by" in said
        assert len(said.splitlines()) == 2
        assert f"process {second.pid}, since" in said
        second.send_signal(signal.SIGCONT)
        assert second.wait(60) == 0, second.communicate()
        assert second.communicate()[1] == ""
    assert digest_tree(out) == digest_tree(tmp_path / "whole")
