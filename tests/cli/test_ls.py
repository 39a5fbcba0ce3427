import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MakeTree = Callable[..., Path]


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


def test_a_closed_pipe_is_quiet(run: Run, make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree(each=200, size=16)
    pack = run("convert", "photos", "--jobs", 1).stdout.strip()
    command = f"{sys.executable} -m packer ls {pack} | head -n 1"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert found.stdout.startswith("key\t")
    assert found.stderr == ""
