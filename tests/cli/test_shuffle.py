import json
import re
from pathlib import Path

import numpy as np
import pytest

from packer.convert import ConvertOptions
from packer.writer import PackWriter
from tests.fixtures import Run

ARGUMENTS = ("--shuffle", "--batch-size", 16, "--window", 2)


def write_pack(root: Path, order: list[int], classes: int = 20) -> None:
    """A pack of one-coloured pictures with these labels, in on-disk batches of 8."""
    options = ConvertOptions(codec="png", batch_size=8)
    names = [str(label) for label in range(classes)]
    with PackWriter(root, classes=names, options=options) as writer:
        for number, label in enumerate(order):
            pixels = np.full((2, 2, 3), max(label, 0), np.uint8)
            writer.write(image=pixels, label=label, key=str(number), split="train")


@pytest.fixture
def packs(tmp_path: Path) -> None:
    labels = [label for label in range(20) for _ in range(40)]
    write_pack(tmp_path / "sorted", labels)
    write_pack(tmp_path / "mixed", np.random.default_rng(1).permutation(labels).tolist())
    write_pack(tmp_path / "unlabelled", [-1] * 40)


@pytest.mark.usefixtures("packs")
def test_a_sorted_pack_fails_and_is_told_what_to_do(run: Run) -> None:
    """Mini-batches of a class-sorted pack hold few classes; the command must fail and say why."""
    text = run("info", "sorted", *ARGUMENTS).stdout
    assert "train: 800 samples of 20 classes in 100 on-disk batches" in text
    assert "of a permutation's classes, less than 98%" in text
    assert "convert again with --order shuffled" in text
    larger = re.search(r"or: window=(\d+), which holds", text)
    assert larger is not None
    again = run("info", "sorted", *ARGUMENTS[:-1], larger[1]).stdout
    assert "window: mixes classes" in again
    value = json.loads(run("info", "sorted", *ARGUMENTS, "--json").stdout)
    assert (value["schema"], value["advice"] != []) == ("packer.shuffle/1", True)
    assert [entry["mixes"] for entry in value["measured"]] == [False, False, False, True]


@pytest.mark.usefixtures("packs")
def test_a_mixed_pack_passes(run: Run) -> None:
    text = run("info", "mixed", *ARGUMENTS, "--split", "train", "--epochs", 4).stdout
    assert "window: mixes classes as a true permutation does" in text
    assert [line.split()[0] for line in text.splitlines()[5:9]] == [
        "none", "batch", "window", "full"
    ]  # fmt: skip
    value = json.loads(run("info", "mixed", *ARGUMENTS, "--json").stdout)
    assert all(entry["mixes"] for entry in value["measured"])
    window = value["measured"][2]
    assert window["together"] <= 1.1 * window["together_expected"]


@pytest.mark.usefixtures("packs")
def test_what_cannot_be_measured_is_refused(run: Run) -> None:
    for arguments, words in (
        (("unlabelled", "--shuffle"), "has no labels"),
        (("mixed", "--shuffle", "--batch-size", 1000), "nothing to measure"),
        (("mixed", "--shuffle", "--split", "tran"), "did you mean 'train'"),
        (("mixed", "--shuffle", "--epochs", 1), "1 is not in the range"),
        (("mixed", "--window", 3), "--window goes with --shuffle"),
    ):
        done = run("info", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
