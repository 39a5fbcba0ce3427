import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures import Called, Digest, MakeTree, Run

pytestmark = pytest.mark.slow

SMALL = ("--resize", "48", "--batch-size", "4", "--shard-size", "16kB", "--jobs", "2")


def test_stdout_is_the_path_alone(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    found = run("convert", "photos", *SMALL)
    assert found.returncode == 0
    assert found.stdout == f"{tmp_path}/photos-48-jpeg-tar\n"
    assert "24 packed of 24 planned" in found.stderr
    assert f"output: {tmp_path}/photos-48-jpeg-tar" in found.stderr
    again = run("convert", "photos", *SMALL, "-q")
    assert (again.returncode, again.stdout, again.stderr) == (0, found.stdout, "")


def test_json_is_one_object_with_a_schema(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    value = json.loads(run("convert", "photos", *SMALL, "--json").stdout)
    assert value["schema"] == "packer.convert/1"
    assert value["counts"]["packed"] == 24
    assert value["complete"] is True


def test_flags_win_over_environment_over_config(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree()
    (tmp_path / "mine.yaml").write_text("quality: 70\nbatch-size: 5\nresize: 32\n")

    def options(*arguments: str, **env: str) -> dict[str, object]:
        found = run(
            "convert", "photos", "--config", "mine.yaml", "--dry-run", "--json", *arguments, **env
        )
        assert found.returncode == 0, found.stderr
        value: dict[str, object] = json.loads(found.stdout)["options"]
        return value

    assert options()["quality"] == 70
    assert options()["resize"] == "32"
    assert options(PACKER_QUALITY="60")["quality"] == 60
    assert options("--quality", "50", PACKER_QUALITY="60")["quality"] == 50
    assert options()["codec"] == "jpeg"


def test_what_happened_to_each_kind_of_file_is_said(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    tree = make_tree()
    (tree / "001.class0" / "notes.txt").write_text("x")
    whole = sorted(tree.rglob("*.jpg"))[0].read_bytes()
    (tree / "001.class0" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    found = run("convert", "photos", *SMALL)
    assert found.returncode == 0
    assert "ignored: 1 extension" in found.stderr
    assert "notes.txt" not in found.stderr
    told = run("convert", "photos", *SMALL, "--out", "told", "-v").stderr
    assert "ignored, extension: 001.class0/notes.txt" in told
    assert "train-000000.tar: " in told
    assert "skipped 001.class0/cut.jpg: truncated" in found.stderr
    assert "24 packed of 25 planned" in found.stderr
    strict = run("convert", "photos", *SMALL, "--out", "strict", "--on-error", "fail")
    assert strict.returncode == 1
    assert "001.class0/cut.jpg" in strict.stderr
    assert "Traceback" not in strict.stderr
    limited = run("convert", "photos", *SMALL, "--out", "limited", "--max-skipped", "0")
    assert limited.returncode == 3
    assert "--max-skipped" in limited.stderr


def test_recipe_not_found_says_where_it_looked(run: Run, tmp_path: Path) -> None:
    found = run("convert", "caltech256", PACKER_DATA=f"{tmp_path}/data")
    assert found.returncode == 2
    assert f"{tmp_path}/data/caltech256" in found.stderr
    assert "packer fetch caltech256" in found.stderr


def test_the_sample_is_converted_and_its_odd_pictures_are_told(run: Run) -> None:
    found = run("convert", "sample", "--resize", "128")
    assert found.returncode == 0, found.stderr
    for word in ("turned", "cmyk", "gray", "skipped", "ignored"):
        assert word in found.stderr
    assert run("verify", found.stdout.strip(), "--decode").returncode == 0


def test_at_a_terminal_the_next_lines_to_copy_are_told(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree("my photos")
    found = run("convert", "my photos", "--progress", "bar")
    out = found.stdout.removesuffix("\n")
    look, read = (
        next(line.partition(start)[2] for line in found.stderr.splitlines() if start in line)
        for start in ("look at it: ", "read it: ")
    )
    arguments = shlex.split(look)
    assert arguments == ["packer", "info", out]
    assert run(*arguments[1:]).returncode == 0
    read = f"{read.partition('; ')[0]}; print(len({read.partition('; ')[2]}))"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True)
    assert done.stdout == "24\n"
    for quiet in (["--progress", "bar", "-q"], ["--progress", "log"]):
        assert "look at it" not in run("convert", "my photos", *quiet).stderr


def test_a_log_file_has_few_lines_and_no_carriage_returns(run: Run, make_tree: MakeTree) -> None:
    """A progress bar filled a job's log with carriage returns; a log file must get few, whole
    lines.
    """
    make_tree(each=40)
    found = run("convert", "photos", *SMALL)
    assert "\r" not in found.stderr
    assert found.stderr.count("\n") < 50


def test_progress_events_are_json_lines(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    found = run("convert", "photos", *SMALL, "--progress", "json")
    events = [json.loads(line) for line in found.stderr.splitlines()]
    assert [event for event in events if event["event"] == "progress"][-1]["done"] == 24


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_signals_stop_cleanly_and_the_same_command_goes_on(
    run: Run,
    make_tree: MakeTree,
    digest_tree: Digest,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    jobs: str,
) -> None:
    make_tree(classes=3, each=100, size=300)
    arguments = [
        "convert", "photos", "--batch-size", "4", "--resize", "256", "--shard-size", "200kB",
        "--jobs", jobs, "--out", "pack",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "packer", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.glob("pack/*.tar")) and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, number)  # as a terminal or SLURM does: the workers get it too
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == ""
    assert "Traceback" not in err
    assert "SIG" in err
    assert not list(tmp_path.glob("pack/**/*.tmp"))
    kept = {path: path.stat().st_ino for path in tmp_path.glob("pack/*.tar")}
    assert kept
    assert run(*arguments).returncode == 0
    assert kept.items() <= {p: p.stat().st_ino for p in tmp_path.glob("pack/*.tar")}.items()
    assert run(*arguments[:-1], "fresh").returncode == 0
    assert digest_tree(tmp_path / "pack") == digest_tree(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--quality", "90", "--codec", "png"], "--quality has no effect with codec png"),
        (["--subsampling", "4:4:4", "--codec", "webp"], "--subsampling has no effect with codec"),
        (["--filter", "box"], "--filter has no effect without resize"),
        (["--resize-mode", "crop"], "--resize-mode has no effect without resize"),
        (["--no-upscale"], "--no-upscale has no effect without resize"),
        (["--exact-decode"], "--exact-decode has no effect without resize"),
        (["--seed", "1", "--order", "sorted"], "--seed has no effect with order sorted"),
        (["--split-seed", "1"], "--split-seed has no effect without a split"),
        (["--jobs", "3", "--backend", "sequential"], "--jobs has no effect with backend"),
        (["--scheduler", "tcp://a:1"], "--scheduler has no effect without backend dask"),
        (["--merge-when-complete"], "--merge-when-complete has no effect without a part"),
        (["--max-skipped", "3", "--on-error", "fail"], "--max-skipped has no effect with on-error"),
        (["--quiet", "--verbose"], "--quiet and --verbose contradict each other"),
        (["--split", "train=80,val=20"], "its parts must sum to 1, and their sum is 100"),
        (["--split", "train=80,val=20"], "did you mean train=0.8,val=0.2?"),
        (["--format", "webdataset"], "did you mean 'tar'?"),
        (["--format", "h5"], "did you mean 'hdf5'?"),
        (["--progress", "jsn"], "did you mean 'json'?"),
    ],
    ids=" ".join,
)
def test_a_flag_that_changes_nothing_or_is_not_understood_is_refused(
    flags: list[str], said: str, called: Called, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree(each=1)
    arguments = ["convert", os.fspath(tmp_path / "photos"), "-o", os.fspath(tmp_path / "out")]
    code, text = called([*arguments, *flags])
    assert (code, said in text) == (2, True), text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", ["256", "256B"])
def test_a_small_shard_size_without_a_unit_is_warned_of(
    size: str, run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree()
    for dry in (["--dry-run"], []):
        found = run("convert", "photos", "--shard-size", size, *dry)
        warned = found.stderr.count("warning: shard size 256 is 256 bytes, as it has no unit")
        assert (found.returncode, warned) == (0, size == "256"), found.stderr


@pytest.mark.parametrize("place", ["environment", "config"])
def test_what_changes_nothing_is_warned_of_where_other_commands_may_need_it(
    place: str, run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree()
    (tmp_path / "mine.yaml").write_text("quality: 70\nseed: 5\n")
    config = ["--config", "mine.yaml"] if place == "config" else []
    env = {} if place == "config" else {"PACKER_QUALITY": "70", "PACKER_SEED": "5"}
    warning = "packer: warning: quality 70 has no effect with codec png\n"
    for dry in ([], ["--dry-run"]):
        found = run("convert", "photos", "--codec", "png", *config, *dry, **env)
        assert (found.returncode, found.stderr.count("warning: ")) == (0, 1), found.stderr
        assert warning in found.stderr
    found = run("convert", "photos", "-o", "usual", *config, **env)
    assert (found.returncode, found.stderr.count("warning: ")) == (0, 0), found.stderr


def test_the_samples_own_split_goes_by_its_seed(run: Run) -> None:
    found = run("convert", "sample", "--split-seed", "3", "--dry-run")
    assert (found.returncode, "no effect" in found.stderr) == (0, False), found.stderr


def test_two_runs_on_one_output(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree(classes=3, each=100, size=300)
    arguments = ["convert", "photos", "--resize", "256", "--jobs", "1", "--out", "pack"]
    with subprocess.Popen(
        [sys.executable, "-m", "packer", *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        try:
            while not (tmp_path / "pack" / ".packer" / "lock-all").exists():
                assert first.poll() is None
                time.sleep(0.005)
            first.send_signal(signal.SIGSTOP)  # so that it surely is not done when the second asks
            second = run(*arguments)
        finally:
            first.send_signal(signal.SIGCONT)
        assert second.returncode == 1
        assert re.search(rf"in use by another packer on \S+, process {first.pid}", second.stderr)
        _, err = first.communicate(timeout=60)
        assert first.returncode == 0, err


def test_a_full_standard_output_is_no_success(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "packer", "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert found.returncode == 1
    assert "No space left on device" in found.stderr
    assert "Traceback" not in found.stderr
