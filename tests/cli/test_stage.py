import json
from pathlib import Path

import pytest

from tests.fixtures import MakeTree, Run

pytestmark = pytest.mark.slow


@pytest.fixture
def pack(run: Run, make_tree: MakeTree) -> Path:
    make_tree()
    done = run(
        "convert", "photos", "--resize", "48", "--split", "train=0.6,val=0.4", "--jobs", 1,
        "--batch-size", 4, "--shard-size", "6KB", "--backend", "sequential", "-o", "pack",
    )  # fmt: skip
    return Path(done.stdout.strip())


def test_prints_where_it_is_and_nothing_else(run: Run, pack: Path, tmp_path: Path) -> None:
    """For `pack=$(packer stage …)`."""
    done = run("stage", "pack", "disk")
    assert done.returncode == 0
    path = Path(done.stdout.removesuffix("\n"))
    assert path.parent == tmp_path / "disk"
    assert (path / "manifest.json").read_bytes() == (pack / "manifest.json").read_bytes()
    assert "packer: staging" in done.stderr
    again = run("stage", "pack", "disk", "-q")
    assert (again.stdout, again.stderr) == (done.stdout, "")


def test_part_of_it_as_json(run: Run, pack: Path) -> None:
    done = run("stage", "pack", "disk", "--split", "val,train", "--fraction", "0.3", "--json")
    value = json.loads(done.stdout)
    assert value["schema"] == "packer.stage/1"
    assert 0 < value["samples"] < 24
    found = json.loads(run("info", value["path"], "--json").stdout)
    assert list(found["splits"]) == ["train", "val"]
    assert found["counts"]["excerpt_of"]["samples"] == 24


def test_events(run: Run, pack: Path) -> None:
    done = run("stage", "pack", "disk", "--progress", "json")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    last = [event for event in events if event["event"] == "progress"][-1]
    assert last["done"] == last["total"] > 0


def test_damage_is_exit_code_4(run: Run, pack: Path) -> None:
    shard = pack / "train-000000.tar"
    data = bytearray(shard.read_bytes())
    data[600] ^= 1
    shard.write_bytes(data)
    done = run("stage", "pack", "disk")
    assert (done.returncode, done.stdout) == (4, "")
    assert f"{shard}: its SHA-256 differs" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "disk"], "no such folder"),
        (["pack", "disk", "--split", "tain"], "did you mean 'train'"),
        (["pack", "disk", "--fraction", "0"], "--fraction"),
        (["pack"], "DEST"),
    ],
)
def test_what_cannot_be(run: Run, pack: Path, arguments: list[str], message: str) -> None:
    done = run("stage", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
