import json
import os
from pathlib import Path

from tests.fixtures import Called, MakeTree, Run

SMALL = ("--resize", "48", "--batch-size", "4", "--shard-size", "16kB", "--jobs", "2")


def test_dry_run_writes_nothing(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree()
    found = run("convert", "photos", *SMALL, "--split", "train=0.5,val=0.5", "--dry-run", "--json")
    value = json.loads(found.stdout)
    assert sum(split["samples"] for split in value["splits"].values()) == 24
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_check_looks_at_the_options_and_at_nothing_else(
    called: Called, make_tree: MakeTree
) -> None:
    tree = make_tree(each=1)
    (tree / "001.class0" / "001_0001.jpg").unlink()  # a scan would find little, and say so
    arguments = ["convert", os.fspath(tree), "-o", os.fspath(tree / "out"), "--check"]
    assert called([*arguments, "--part", "0/4", "--split", "train=0.8,val=0.2", "-q"]) == (0, "")
    for wrong in (["--backend", "dask"], ["--dry-run"], ["--codec", "raw"]):
        assert called([*arguments, *wrong])[0] == 2
    assert called(["convert", os.fspath(tree / "no"), "--check"])[0] == 2
    assert not (tree / "out").exists()


def test_a_dry_run_of_a_part_says_what_is_its_own(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    found = run("convert", "photos", *SMALL, "--part", "1/2", "--dry-run")
    assert found.stdout == "train\t24 images\t2 shards\n"
    assert "this part makes 1 shard of it" in found.stderr
