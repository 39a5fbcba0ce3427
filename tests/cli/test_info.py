import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeTree = Callable[..., Path]


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
