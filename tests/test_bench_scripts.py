"""Bench scripts that need no pack: small runs print results, and the results are plausible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.fixtures import MakeTree

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def run(script: str, *arguments: str) -> str:
    """What a script prints."""
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout


def test_everything_is_seen() -> None:
    """18 chunks over 16 workers, 100 over 64: nothing that three epochs do not reach."""
    lines = [line.split() for line in run("bench_coverage.py").splitlines()[1:]]
    assert [line[:5] for line in lines] == [
        ["packer", "18", "16", "3", "0.00%"],
        ["packer", "100", "64", "3", "0.00%"],
    ]


def test_shuffles_hold_what_they_promise(tmp_path: Path) -> None:
    """Shuffling whole batches left clumps of classes elsewhere. The default window must mix as a
    permutation does, samples of one on-disk batch meet at most as often as the window predicts,
    and training is as good as with a full shuffle. For a pack sorted by class both must fail.
    """
    text = run("bench_shuffle.py", "--small", "--json", str(tmp_path / "report.json"))
    value = json.loads((tmp_path / "report.json").read_text())
    random, by_class = value["measured"].values()
    for measured, mixes in ((random, True), (by_class, False)):
        [window] = [
            entry for entry in measured if entry["shuffle"] == "window" and entry["window"] == 16
        ]
        ratio = window["distinct"] / window["distinct_expected"]
        assert (abs(ratio - 1) <= 0.02) == mixes
        assert window["together"] <= 1.1 * window["together_expected"]
        assert window["again"] <= 1.1 * window["again_expected"]
    verdicts = [line for line in text.splitlines() if "a seed each" in line]
    assert verdicts[0].startswith("random") and "within two standard errors" in verdicts[0]
    assert verdicts[1].startswith("sorted") and "more than two standard errors" in verdicts[1]


def test_a_gpus_case_runs_without_one(make_tree: MakeTree, tmp_path: Path) -> None:
    """On the CPU, to know that the script works; without --device cpu it says what is missing."""
    packer = [sys.executable, "-m", "packer", "convert", str(make_tree(classes=2, each=2))]
    subprocess.run([*packer, "--out", str(tmp_path / "pack"), "--jobs", "1"], check=True)
    small = ["--size", "32", "--batch-size", "2", "--seconds", "0", "--warm", "0", "--rounds", "1"]
    report = tmp_path / "report.json"
    arguments = [str(tmp_path / "pack"), *small, "--cases", "model", "loader", "plain"]
    text = run("bench_gpu.py", *arguments, "--device", "cpu", "--json", str(report))
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["model", "loader", "plain"]
    rates = json.loads(report.read_text())["images_per_second"]
    assert all(rate > 0 for values in rates.values() for rate in values)
    if not torch.cuda.is_available():
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run("bench_gpu.py", *arguments)
        assert "finds no CUDA device" in caught.value.stderr


def test_the_gpus_model_is_resnet_50() -> None:
    """Its parameters, counted: 25,557,032 with 1,000 classes, as torchvision's."""
    code = (
        "from bench.resnet50 import resnet50\n"
        "print(sum(part.numel() for part in resnet50(1000).parameters()))"
    )
    found = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT / "scripts", text=True)
    assert found.split() == ["25557032"]
