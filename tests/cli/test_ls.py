import json
import subprocess
import sys
from pathlib import Path

from packer.sample.special import with_orientation
from tests.fixtures import MakeTree, Run


def test_a_line_a_sample_with_odd_names_escaped(run: Run, make_tree: MakeTree) -> None:
    tree = make_tree()
    first = sorted(tree.rglob("*.jpg"))[0]
    first.rename(first.with_name("tab\tnew\nline\\.jpg"))
    pack = run("convert", "photos", "--order", "sorted", "--jobs", 1).stdout.strip()
    header, *rows = run("ls", pack).stdout.splitlines()
    assert header.split("\t") == ["key", "split", "label", "class", "width", "height", "bytes"]
    assert len(rows) == 24
    assert "001.class0/tab\\tnew\\nline\\\\.jpg" in [row.split("\t")[0] for row in rows]
    assert rows[-1].split("\t")[1:4] == ["train", "2", "003.class2"]
    assert run("ls", pack, "--split", "test").returncode == 2


def test_keys_alone_for_programs(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    tree = make_tree(classes=1, each=3)
    first = sorted(tree.rglob("*.jpg"))[0]
    first.rename(first.with_name("tab\tnew\nline\\.jpg"))
    pack = run("convert", "photos", "--jobs", 1).stdout.strip()
    found = run("ls", "-0", pack, "--split", "train")
    keys = {str(path.relative_to(tree)) for path in tree.rglob("*.jpg")}
    assert found.stdout.endswith("\0")
    assert set(found.stdout[:-1].split("\0")) == keys
    command = f"{sys.executable} -m packer"
    line = f"{command} ls -0 {pack} | xargs -0 -n1 {command} cat --raw {pack} -- | wc -c"
    total = subprocess.run(
        line, shell=True, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    rows = [row.split("\t") for row in run("ls", pack).stdout.splitlines()[1:]]
    assert int(total.stdout) == sum(int(row[-1]) for row in rows)


def test_pictures_with_a_note_are_listed_by_name(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    """Whatever the number of workers, and of parts that were joined."""
    tree = make_tree(each=16)
    files = sorted(tree.rglob("*.jpg"))
    turned = {_relative(files[n], tree) for n in (0, 5, 40)}
    for name in turned:
        path = tree / name
        path.write_bytes(with_orientation(path.read_bytes(), 6))
    damaged = {_relative(files[n], tree) for n in (3, 30)}
    for name in damaged:
        data = (tree / name).read_bytes()
        (tree / name).write_bytes(data[: len(data) * 3 // 4])
    common = ("convert", "photos", "--keep-damaged", "--batch-size", 8, "--shard-size", "32KB")
    one = run(*common, "--jobs", 1, "-o", "one")
    two = run(*common, "--jobs", 2, "-o", "two")
    for part in range(2):
        run(*common, "--jobs", 1, "--part", f"{part}/2", "-o", "three")
    run("merge", "three")
    assert "2 damaged, stored as asked: packer ls --note damaged" in one.stderr
    assert two.returncode == 0
    assert _keys(run("ls", "one", "--note", "turned")) == turned
    assert _keys(run("ls", "one", "--note", "damaged", "--note", "turned")) == turned | damaged
    kept = {_relative(path, tree) for path in files} - turned - damaged
    assert _keys(run("ls", "one", "--note", "kept")) == kept
    assert _keys(run("ls", "one", "--note", "cmyk")) == set()
    for pack in ("one", "two", "three"):
        assert _keys(run("ls", pack, "--note", "damaged")) == damaged
        index = (tmp_path / pack / "train.index").read_bytes()
        assert index == (tmp_path / "one" / "train.index").read_bytes()
    assert "did you mean 'damaged'" in run("ls", "one", "--note", "damage").stderr


def test_without_the_option_damaged_pictures_are_in_the_ledger(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    tree = make_tree()
    path = sorted(tree.rglob("*.jpg"))[0]
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"\xff\xd9")
    found = run("convert", "photos", "--jobs", 1, "-o", "pack")
    assert found.returncode == 0
    ledger = json.loads((tmp_path / "pack" / "skipped.jsonl").read_text())
    assert (ledger["path"], ledger["reason"]) == (_relative(path, tree), "damaged")
    assert "premature end" in ledger["detail"]
    assert run("ls", "pack", "--note", "damaged").stdout.count("\n") == 1
    other = run("convert", "photos", "--jobs", 1, "-o", "pack", "--keep-damaged")
    assert other.returncode == 2
    assert "keep damaged" in other.stderr


def _relative(path: Path, tree: Path) -> str:
    return str(path.relative_to(tree))


def _keys(found: "subprocess.CompletedProcess[str]") -> set[str]:
    assert found.returncode == 0, found.stderr
    return {line.split("\t")[0] for line in found.stdout.splitlines()[1:]}


def test_a_closed_pipe_is_quiet(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree(each=200, size=16)
    pack = run("convert", "photos", "--jobs", 1).stdout.strip()
    command = f"{sys.executable} -m packer ls {pack} | head -n 1"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert found.stdout.startswith("key\t")
    assert found.stderr == ""
