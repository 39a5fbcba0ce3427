"""Calls of SLURM's commands by the scripts, and use of their answers, without SLURM."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.fixtures import Digest, MakeTree

pytestmark = pytest.mark.cluster

SLURM = Path(__file__).parent.parent.parent / "scripts" / "slurm"
NAMES = ["submit", *sorted(path.name for path in SLURM.glob("*.sh"))]


class Cluster(Protocol):
    """See conftest."""

    folder: Path
    notes: Path
    bin: Path

    def environment(self, **variables: str) -> dict[str, str]: ...
    def bash(self, *words: object, **variables: str) -> subprocess.CompletedProcess[str]: ...
    def called(self, name: str) -> dict[str, Any]: ...


def test_nothing_else_lies_there() -> None:
    files = {path.name for path in SLURM.iterdir() if path.is_file()}
    assert files == {*NAMES, "__init__.py"}


@pytest.mark.parametrize("name", NAMES)
def test_shell_scripts_are_strict(name: str) -> None:
    text = (SLURM / name).read_text()
    assert text.startswith("#!/usr/bin/env bash\n# ")
    assert "\nset -euo pipefail\n" in text
    assert max(map(len, text.splitlines())) <= 100
    assert (SLURM / name).stat().st_mode & 0o111


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_shellcheck_finds_nothing(name: str) -> None:
    found = subprocess.run(
        ["shellcheck", "--severity=style", SLURM / name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")


@pytest.fixture
def photos(cluster: Cluster) -> Path:
    """An empty source: it is looked for before anything is submitted, but not into."""
    folder = cluster.folder / "my photos"
    folder.mkdir()
    return folder


def test_submit_chains_three_jobs(cluster: Cluster, photos: Path) -> None:
    found = cluster.bash(
        SLURM / "submit", "--train=--epochs 3 --val val",
        "8", "./my photos", "out", "--resize", "64",
        PACKER_SBATCH_CONVERT="--time=60 --mem=4G", PACKER_SBATCH_TRAIN="--gres=gpu:4 --nodes=2",
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout == "convert 100\nmerge 101\ntrain 102\n"
    assert cluster.called("sbatch-100")["arguments"] == [
        "--parsable", "--cpus-per-task=4", "--array=0-7", "--time=60", "--mem=4G",
        str(SLURM / "convert.sh"), "8", "./my photos", "out", "--resize", "64",
    ]  # fmt: skip
    merge = cluster.called("sbatch-101")["arguments"]
    words = ["--parsable", "--dependency=afterany:100", str(SLURM / "merge.sh"), "out"]
    assert merge[:-1] == words
    assert shlex.split(merge[-1]) == [
        str(SLURM / "submit"), "--array=LIST", "--train=--epochs 3 --val val",
        "8", "./my photos", "out", "--resize", "64",
    ]  # fmt: skip
    assert cluster.called("sbatch-102")["arguments"] == [
        "--parsable", "--dependency=afterok:101", "--kill-on-invalid-dep=yes", "--gres=gpu:4",
        "--nodes=2", str(SLURM / "train.sh"), str(SLURM.parent), "out",
        "--epochs", "3", "--val", "val",
    ]  # fmt: skip


def test_copied_scripts_find_each_other(cluster: Cluster, photos: Path) -> None:
    """The jobs run the copies; a script that was copied without the others is refused."""
    copy = f"{sys.executable} -m packer examples --all 'my jobs'"
    assert cluster.bash("-c", copy).returncode == 0
    jobs = cluster.folder / "my jobs"
    found = cluster.bash("my jobs/slurm/submit", "--train=--epochs 3", "8", photos, "out")
    assert found.returncode == 0, found.stderr
    called = [cluster.called(f"sbatch-{number}")["arguments"] for number in (100, 101, 102)]
    for name, arguments in zip(("convert.sh", "merge.sh", "train.sh"), called, strict=True):
        assert str(jobs / "slurm" / name) in arguments
    task = {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "4711", "SLURM_NNODES": "2"}
    words = called[2][called[2].index(str(jobs / "slurm" / "train.sh")) :]
    trained = cluster.bash(*words, **task, PACKER_PYTHON=str(cluster.bin / "stub-python"))
    assert trained.returncode == 0, trained.stderr
    example = str(jobs / "examples" / "train_ddp.py")
    assert example in cluster.called("python-torch.distributed.run")["arguments"]
    Path(example).unlink()
    found = cluster.bash("my jobs/slurm/submit", "8", photos, "out")
    assert found.returncode == 2
    assert found.stderr == (
        f"submit: {example}: no such file; `packer examples --all DIR` copies all scripts\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        [], ["3", "photos"], ["0", "photos", "out"], ["0-3", "photos", "out"],
        ["--arry=3", "3", "photos", "out"], ["3", "-", "out"],
    ],
)  # fmt: skip
def test_submit_refuses_wrong_usage(cluster: Cluster, words: list[str]) -> None:
    found = cluster.bash(SLURM / "submit", *words)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("submit: ")
    assert not list(cluster.notes.iterdir())


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (["--train=--batch-size 3", "3", "./my photos", "out"], {}, "arguments: --batch-size"),
        (["3", "./my photos", "out", "--reszie", "64"], {}, "--reszie"),
        (["3", "./my photos", "out", "--codec", "jpg"], {}, "did you mean 'jpeg'?"),
        (["3", "./my photos", "out", "--filter", "box"], {}, "--filter has no effect"),
        (["3", "./my photos", "out", "--split", "8,2"], {}, "train=0.8,val=0.2"),
        (["3", "./nowhere", "out"], {}, "nowhere"),
        (["3", "./my photos", "out"], {"PACKER_SHARD_SIZE": "many"}, "256MB or 1GiB"),
        (["3", "./my photos", "out"], {"PACKER_PYTHON": "no-python"}, "no-python"),
        (["3", "./my photos", "out"], {"PACKER_SETUP": "no-file"}, "no-file: no such file"),
        (["3", "./my photos", "out"], {"PACKER_SETUP": "bad.sh"}, "bad.sh failed"),
        (
            ["3", "./my photos", "out"],
            {"PACKER_SBATCH_CONVERT": "--cpus-per-task=9"},
            "node configuration is not available",
        ),
        (
            ["3", "./my photos", "out"],
            {"PACKER_SBATCH_MERGE": "--partition=nope"},
            "no node takes the merge job",
        ),
    ],
    ids=str,
)
def test_what_a_job_would_refuse_is_refused_before_any_is_submitted(
    cluster: Cluster, photos: Path, words: list[str], variables: dict[str, str], said: str
) -> None:
    (cluster.folder / "bad.sh").write_text("false\n")
    found = cluster.bash(SLURM / "submit", *words, **variables)
    assert (found.returncode, found.stdout) == (2, ""), found.stderr
    assert said in found.stderr
    assert not list(cluster.notes.iterdir())
    if "PACKER_SETUP" not in variables or "bad" in variables["PACKER_SETUP"]:
        assert "nothing was submitted; --no-check" in found.stderr.splitlines()[-1]


def test_submit_can_be_told_not_to_look(cluster: Cluster) -> None:
    found = cluster.bash(SLURM / "submit", "--no-check", "3", "elsewhere", "out", STUB_CPUS="0")
    assert found.returncode == 0, found.stderr
    assert cluster.called("sbatch-100")["arguments"][:2] == ["--parsable", "--array=0-2"]
    assert "--array=LIST --no-check 3 " in cluster.called("sbatch-101")["arguments"][-1]


@pytest.mark.parametrize(("largest", "cpus"), [("8", "4"), ("4", "4"), ("3", "2"), ("1", "1")])
def test_a_part_gets_no_more_cpus_than_a_node_has(
    cluster: Cluster, photos: Path, largest: str, cpus: str
) -> None:
    found = cluster.bash(SLURM / "submit", "3", "./my photos", "out", STUB_CPUS=largest)
    assert found.returncode == 0, found.stderr
    assert cluster.called("sbatch-100")["arguments"][1] == f"--cpus-per-task={cpus}"
    assert (f"it gets {cpus}" in found.stderr) == (cpus != "4")


def test_cpus_that_were_asked_for_win(cluster: Cluster, photos: Path) -> None:
    asked = {"PACKER_SBATCH_CONVERT": "--cpus-per-task=7"}
    assert cluster.bash(SLURM / "submit", "3", "./my photos", "out", **asked).returncode == 0
    arguments = cluster.called("sbatch-100")["arguments"]
    assert [word for word in arguments if "cpus" in word][-1] == "--cpus-per-task=7"


def test_every_job_begins_with_the_users_setup(
    cluster: Cluster, photos: Path, make_tree: MakeTree
) -> None:
    """As modules and conda do it: variables, functions, and no care for `set -u`. The file lies
    beside the working directory, where jobs may not start.
    """
    make_tree("work dir/photos", each=2)
    (cluster.folder / "my setup.sh").write_text(
        f'export PACKER_PYTHON={sys.executable}$EMPTY\necho "set up by $0"\nset +e +o pipefail\n'
    )
    setup = {"PACKER_SETUP": "my setup.sh", "PACKER_PYTHON": "no-python"}
    words = [SLURM / "submit", "1", "./photos", "out", "--resize", "48"]
    found = cluster.bash(*words, **setup, STUB_RUN="1")
    assert found.returncode == 0, found.stderr
    assert found.stdout == "convert 100\nmerge 101\n"
    assert "set up by " in found.stderr  # for the check of the options
    for job, script in (("100", "convert.sh"), ("101", "merge.sh")):
        log = (cluster.folder / f"job-{job}.log").read_text()
        assert f"{script}\n" in log.partition("set up by ")[2], log
        assert " done: " in log.splitlines()[-1]
    given = cluster.called("sbatch-100")["environment"]["PACKER_SETUP"]
    assert given == str(cluster.folder / "my setup.sh")


@pytest.mark.parametrize("name", ["convert.sh", "merge.sh", "train_node.sh"])
def test_a_setup_that_fails_ends_the_job(cluster: Cluster, name: str) -> None:
    (cluster.folder / "bad.sh").write_text("false\n")
    task = {"SLURM_ARRAY_TASK_ID": "0", "PACKER_PYTHON": "stub-python", "PACKER_SETUP": "bad.sh"}
    found = cluster.bash(SLURM / name, "1", "photos", "out", **task)
    assert found.returncode == 1
    assert found.stderr == f"{name.removesuffix('.sh')}: bad.sh failed\n"
    assert not list(cluster.notes.iterdir())


def test_submit_stops_where_sbatch_fails(cluster: Cluster) -> None:
    words = ["--no-check", "--train=", "3", "photos", "out"]
    found = cluster.bash(SLURM / "submit", *words, STUB_FAILS="101")
    assert found.returncode == 1
    assert found.stdout == "convert 100\n"
    assert "no such partition" in found.stderr
    assert not (cluster.notes / "sbatch-102.json").exists()


def test_a_lost_task_is_named_and_its_rerun_completes_the_pack(
    cluster: Cluster, make_tree: MakeTree, digest_tree: Digest
) -> None:
    make_tree("work dir/my photos", each=20)
    options = ["--resize", "48", "--batch-size", "4", "--shard-size", "8kB"]
    found = cluster.bash(
        SLURM / "submit", "3", "./my photos", "my pack", *options, STUB_RUN="1", STUB_LOST="1"
    )
    assert found.returncode == 0, found.stderr
    log = (cluster.folder / "job-101.log").read_text()
    assert "run these of the 3 parts again: --array=1" in log
    assert " failed (exit code 1): " in log
    line = log.partition("to make and join them, run: ")[2].splitlines()[0]
    assert "--array=1 3 " in line

    assert cluster.bash("-c", line, STUB_RUN="1").returncode == 0
    log = (cluster.folder / "job-103.log").read_text()
    assert "60 samples" in log
    assert " done: " in log.splitlines()[-1]
    plain = cluster.bash(
        "-c", f"{sys.executable} -m packer convert './my photos' -o plain {' '.join(options)}"
    )
    assert plain.returncode == 0
    assert digest_tree(cluster.folder / "my pack") == digest_tree(cluster.folder / "plain")


def test_merge_says_other_errors_alone(cluster: Cluster) -> None:
    found = cluster.bash(SLURM / "merge.sh", "nothing here")
    assert found.returncode == 2
    assert "nothing here" in found.stderr
    assert "run this" not in found.stderr


def test_merge_finds_damage(cluster: Cluster, make_tree: MakeTree) -> None:
    make_tree("work dir/photos")
    convert = f"{sys.executable} -m packer convert photos -o pack --resize 48"
    assert cluster.bash("-c", convert).returncode == 0
    shard = next((cluster.folder / "pack").glob("*.tar"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert cluster.bash(SLURM / "merge.sh", "pack").returncode == 4


def test_the_number_of_parts_is_not_that_of_the_submission(cluster: Cluster) -> None:
    """SLURM_ARRAY_TASK_COUNT is 1 when one of three parts is submitted again."""
    task = {
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_ARRAY_TASK_COUNT": "1",
        "PACKER_PYTHON": "stub-python",
    }
    words = [SLURM / "convert.sh", "3", "photos", "out", "--resize", "64"]
    assert cluster.bash(*words, **task, SLURM_CPUS_PER_TASK="6").returncode == 0
    called = cluster.called("python-packer")
    assert called["arguments"] == [
        "-m", "packer", "convert", "photos", "--out", "out", "--part", "2/3", "--progress", "log",
        "--resize", "64",
    ]  # fmt: skip
    assert called["environment"]["PACKER_JOBS"] == "6"


@pytest.mark.parametrize(
    ("variables", "jobs"),
    [
        ({}, "1"),
        ({"SLURM_CPUS_ON_NODE": "5"}, "5"),
        ({"SLURM_CPUS_PER_TASK": "6", "SLURM_CPUS_ON_NODE": "64"}, "6"),
        ({"PACKER_JOBS": "3", "SLURM_CPUS_PER_TASK": "6"}, "3"),
    ],
)
def test_jobs_are_the_tasks_cpus_unless_said(
    cluster: Cluster, variables: dict[str, str], jobs: str
) -> None:
    task = {"SLURM_ARRAY_TASK_ID": "0", "PACKER_PYTHON": "stub-python", **variables}
    assert cluster.bash(SLURM / "convert.sh", "1", "photos", "out", **task).returncode == 0
    assert cluster.called("python-packer")["environment"]["PACKER_JOBS"] == jobs


def test_outside_of_an_array_usage_is_told(cluster: Cluster) -> None:
    found = cluster.bash(SLURM / "convert.sh", "3", "photos", "out")
    assert found.returncode != 0
    assert "--array=0-(PARTS-1)" in found.stderr


def test_sigterm_reaches_packer_itself(cluster: Cluster, make_tree: MakeTree) -> None:
    """SLURM signals the script's process, and looks at its exit code."""
    make_tree("work dir/photos", each=60, size=300)
    words = ["1", "photos", "out", "--batch-size", "4", "--shard-size", "100kB"]
    with subprocess.Popen(
        ["bash", SLURM / "convert.sh", *words],
        cwd=cluster.folder, env=cluster.environment(SLURM_ARRAY_TASK_ID="0"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not list(cluster.folder.glob("out/*.tar")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert " stopped (exit code 143): " in err.splitlines()[-1]


def test_training_stages_on_each_node_and_meets_on_the_first(cluster: Cluster) -> None:
    job = {
        "SLURM_JOB_ID": "104711", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "32", "PACKER_PYTHON": "stub-python",
    }  # fmt: skip
    found = cluster.bash(SLURM / "train.sh", SLURM.parent, "my pack", "--epochs", "3", **job)
    assert found.returncode == 0, found.stderr
    srun = cluster.called("srun")
    assert srun["arguments"][0] == "--kill-on-bad-exit=1"
    assert srun["environment"]["SRUN_CPUS_PER_TASK"] == "32"
    stage = ["-m", "packer", "stage", "my pack", "/dev/shm", "--progress", "log"]
    assert cluster.called("python-packer")["arguments"] == stage
    assert cluster.called("python-torch.distributed.run")["arguments"] == [
        "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "4",
        "--rdzv-id", "104711", "--rdzv-backend", "c10d", "--rdzv-endpoint", "node7:24711",
        str(SLURM.parent / "examples" / "train_ddp.py"), "/dev/shm/copy", "--epochs", "3",
    ]  # fmt: skip


def test_training_does_not_begin_without_the_copy(cluster: Cluster) -> None:
    found = cluster.bash(SLURM / "train_node.sh", SLURM.parent, "no pack", PACKER_STAGE="here")
    assert found.returncode == 2
    assert "no pack" in found.stderr
