"""The scripts on a real SLURM: one node and a partition that is idle will do.

    PACKER_TEST_SLURM=1 python -m pytest tests/slurm

Apart from SLURM's own configuration nothing is needed; jobs take about a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SLURM = Path(__file__).parent.parent.parent / "scripts" / "slurm"
#: Slow to encode, and small shards: a task can be caught in the middle.
OPTIONS = ("--resize", "700", "--codec", "webp", "--batch-size", "4", "--shard-size", "600kB")

pytestmark = [
    pytest.mark.skipif(shutil.which("sbatch") is None, reason="no SLURM here (sbatch)"),
    pytest.mark.skipif(
        "PACKER_TEST_SLURM" not in os.environ, reason="submits jobs: set PACKER_TEST_SLURM=1"
    ),
]

MakeTree = Callable[..., Path]
Digest = Callable[[Path], dict[str, str]]


class Jobs:
    """What one test submits, from a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers: list[str] = []

    def call(self, *words: object, **variables: str) -> str:
        """Run a command, which must succeed; its stdout."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PACKER_")}
        own = {"PACKER_PYTHON": sys.executable, "PACKER_SBATCH_CONVERT": "--cpus-per-task=1"}
        done = subprocess.run(
            list(map(str, words)),
            cwd=self.folder, env=clean | own | variables,
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *words: object, **variables: str) -> dict[str, str]:
        """Numbers of the jobs that `submit`, or what it told to run, made, by name."""
        jobs = dict(line.split() for line in self.call(*words, **variables).splitlines())
        self.numbers += jobs.values()
        return jobs

    def wait(self, job: str, seconds: float = 300) -> None:
        """Until SLURM has ended all of a job."""
        end = time.monotonic() + seconds
        while states := self.call("squeue", "--noheader", "--format=%T", "--jobs", job).split():
            assert time.monotonic() < end, (job, states)
            time.sleep(0.5)

    def log(self, pattern: str) -> str:
        """Content of the log file of that name, "" as long as there is none."""
        return "".join(path.read_text() for path in self.folder.glob(pattern))


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    submitted = Jobs(tmp_path)
    yield submitted
    for number in submitted.numbers:
        subprocess.run(["scancel", number], check=False, capture_output=True)


def catch(jobs: Jobs, log: str) -> None:
    """Wait until a task has begun and shards are being made."""
    end = time.monotonic() + 120
    while "output: " not in jobs.log(log) or not list(jobs.folder.glob("pack/*.tar")):
        assert time.monotonic() < end, jobs.log("*.log")
        time.sleep(0.05)


def test_a_cancelled_task_is_run_again_and_nothing_is_lost(
    jobs: Jobs, make_tree: MakeTree, digest_tree: Digest
) -> None:
    make_tree(each=40, size=900)
    first = jobs.submit(SLURM / "submit", 3, "./photos", "pack", *OPTIONS)
    catch(jobs, f"packer-convert-{first['convert']}_0.log")
    jobs.call("scancel", f"{first['convert']}_0")
    jobs.wait(first["merge"])
    lost = jobs.log(f"packer-convert-{first['convert']}_0.log")
    assert "packer: stopped by SIGTERM" in lost
    assert " stopped (exit code 143): " in lost.splitlines()[-1]
    merge = jobs.log(f"packer-merge-{first['merge']}.log")
    assert "run these of the 3 parts again: --array=0" in merge
    line = merge.partition("run this, and they are joined: ")[2].splitlines()[0]

    again = jobs.submit("bash", "-c", line)
    jobs.wait(again["merge"])
    merge = jobs.log(f"packer-merge-{again['merge']}.log")
    assert "120 samples" in merge
    assert " done: " in merge.splitlines()[-1]
    jobs.call(sys.executable, "-m", "packer", "convert", "./photos", "-o", "plain", *OPTIONS)
    assert digest_tree(jobs.folder / "pack") == digest_tree(jobs.folder / "plain")


def test_training_on_a_staged_pack(jobs: Jobs, make_tree: MakeTree) -> None:
    pytest.importorskip("torch")
    make_tree(each=20)
    stage = jobs.folder / "local disk"
    made = jobs.submit(
        SLURM / "submit", "--train=--epochs 1 --global-batch-size 8 --size 32 --workers 0",
        2, "./photos", "pack", "--resize", 48, "--shard-size", "8kB", "--batch-size", 4,
        "--split", "train=0.7,val=0.3",
        PACKER_RANKS="2", PACKER_STAGE=str(stage), OMP_NUM_THREADS="1",
    )  # fmt: skip
    jobs.wait(made["train"])
    log = jobs.log(f"packer-train-{made['train']}.log")
    assert "epoch 0: " in log
    assert log.count("packer: staged: 60 samples") == 1
    assert len(list(stage.glob("pack-*/manifest.json"))) == 1


def test_a_requeued_task_goes_on(jobs: Jobs, make_tree: MakeTree) -> None:
    """SLURM starts it again about two minutes later."""
    make_tree(each=60, size=900)
    made = jobs.submit(SLURM / "submit", 1, "./photos", "pack", *OPTIONS)
    catch(jobs, f"packer-convert-{made['convert']}_0.log")
    jobs.call("scontrol", "requeue", f"{made['convert']}_0")
    jobs.wait(made["merge"], seconds=400)
    log = jobs.log(f"packer-convert-{made['convert']}_0.log")
    assert log.count("packer: output: ") == 2
    assert "packer: continuing: " in log
    assert "180 samples" in jobs.log(f"packer-merge-{made['merge']}.log")
