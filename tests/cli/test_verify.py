import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeTree = Callable[..., Path]


def test_ok_and_damage(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    pack = Path(run("convert", "photos", "--resize", "48", "--jobs", 1).stdout.strip())
    found = run("verify", pack, "--decode", "--against", "photos", "--jobs", 1)
    assert (found.returncode, found.stdout) == (0, "ok: 1 shards, 24 samples, 24 samples read\n")
    with (pack / "train-000000.tar").open("ab") as file:
        file.write(b"more")
    found = run("verify", pack)
    assert found.returncode == 4
    assert found.stdout == ""
    assert "train-000000.tar: has" in found.stderr
    assert "Traceback" not in found.stderr
    value = json.loads(run("verify", pack, "--json").stdout)
    assert len(value["damage"]) == 1
