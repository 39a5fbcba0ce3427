import json

from tests.fixtures import MakeTree, Run


def test_info_says_what_is_in_a_pack(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    arguments = ("--resize", "48", "--split", "train=0.5,val=0.5", "--jobs", 1)
    pack = run("convert", "photos", *arguments).stdout.strip()
    text = run("info", pack).stdout
    assert "tar, 128 samples a batch" in text
    assert "48 short, bicubic, jpeg quality 90 4:2:0" in text
    assert "24 of 24" in text
    value = json.loads(run("info", pack, "--json").stdout)
    assert value["schema"] == "packer.info/1"
    assert sum(split["samples"] for split in value["splits"].values()) == 24


def test_info_says_that_a_pack_is_a_part_of_another(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    arguments = ("--batch-size", 2, "--shard-size", "4kB", "--jobs", 1)
    pack = run("convert", "photos", *arguments).stdout.strip()
    assert "excerpt" not in run("info", pack).stdout
    staged = run("stage", pack, "disk", "--fraction", "0.3").stdout.strip()
    assert "excerpt of  24 samples" in run("info", staged).stdout
