import json
from pathlib import Path

import pytest

from tests.fixtures import MakeTree, Run

pytestmark = pytest.mark.slow

SMALL = ("--resize", "48", "--batch-size", "4", "--shard-size", "16kB", "--jobs", "1")


def test_parts_then_merge(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    first = run("convert", "photos", *SMALL, "-o", "pack", "--part", "0/2")
    assert first.returncode == 0
    assert "shards of other parts still to be made: 1" in first.stderr
    missing = run("merge", "pack")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "1 of 2 shards are missing: train-000001.tar" in missing.stderr
    assert "run these of the 2 parts again: --array=1" in missing.stderr
    value = json.loads(run("merge", "pack", "--json").stdout)
    assert value == {
        "schema": "packer.merge/1", "out": f"{tmp_path}/pack", "complete": False,
        "missing": ["train-000001.tar"], "array": "1",
    }  # fmt: skip
    second = run("convert", "photos", *SMALL, "-o", "pack", PACKER_PART="1/2")
    assert f"all others are: packer merge {tmp_path}/pack" in second.stderr
    merged = run("merge", "pack")
    assert (merged.returncode, merged.stdout) == (0, f"{tmp_path}/pack\n")
    assert "24 packed of 24 planned" in merged.stderr
    again = run("merge", "pack", "--json")
    value = json.loads(again.stdout)
    assert (value["schema"], value["was_complete"]) == ("packer.merge/1", True)
    assert value["counts"]["packed"] == 24


def test_another_number_of_parts_is_usage(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    assert run("convert", "photos", *SMALL, "-o", "pack", "--part", "0/2").returncode == 0
    found = run("convert", "photos", *SMALL, "-o", "pack", "--part", "0/3")
    assert found.returncode == 2
    assert "is being made in 2 parts" in found.stderr


def test_nothing_to_merge(run: Run) -> None:
    found = run("merge", "nowhere")
    assert found.returncode == 2
    assert "nowhere: no such folder" in found.stderr
