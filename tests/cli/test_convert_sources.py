"""Messages of the command about sources, and names in other locales."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import Digest, MakeTree, Run

#: A locale whose names are ASCII, without Python's ways around it.
OTHER = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SMALL = ("--resize", "32", "-j", "1", "--backend", "sequential")


def test_the_locale_changes_no_byte(
    run: Run, make_tree: MakeTree, tmp_path: Path, digest_tree: Digest
) -> None:
    tree = make_tree("caf\u00e9", classes=4, each=2)
    for number, name in enumerate((b"z", b"\xc3\xa9", b"\xff", "日".encode()), 1):
        (tree / f"00{number}.class{number - 1}").rename(tree / os.fsdecode(name))
    (tree / os.fsdecode(b"z/cut-\xc3\xa9.jpg")).write_bytes(b"\xff\xd8\xff")
    locales = {"utf": {"LC_ALL": "C.UTF-8"}, "other": OTHER}
    for pack, env in locales.items():
        made = run("convert", tree, "-o", pack, *SMALL, "--exclude-class", "日", **env)
        assert made.returncode == 0, made.stderr
        assert made.stdout == f"{tmp_path}/{pack}\n"
        assert "skipped z/cut-é.jpg" in made.stderr
    assert digest_tree(tmp_path / "utf") == digest_tree(tmp_path / "other")
    manifest = json.loads((tmp_path / "other" / "manifest.json").read_bytes())
    assert manifest["classes"] == ["z", "é", "\udcff"]
    assert manifest["name"] == "café"
    # In the other locale nothing differs from what is there.
    again = run("convert", tree, "-o", "utf", *SMALL, "--exclude-class", "日", **OTHER)
    assert "the pack exists and is complete" in again.stderr
    rows = run("ls", "utf", **OTHER).stdout.splitlines()
    key = next(row.partition("\t")[0] for row in rows if row.startswith("é/"))
    command = [sys.executable, "-m", "packer", "cat", "utf", key]
    env = os.environ | OTHER
    found = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    assert found.stdout[:2] == b"\xff\xd8"
    home = run("convert", tree, *SMALL, **OTHER)
    assert home.stdout == f"{tmp_path}/café-32-jpeg-tar\n"


def test_a_config_names_classes_in_every_locale(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    (make_tree(classes=2) / "001.class0").rename(tmp_path / "photos" / "é")
    (tmp_path / "mine.yaml").write_text("exclude-class: [é]\n", encoding="utf-8")
    for env in (OTHER, {**OTHER, "PACKER_EXCLUDE_CLASS": "é"}):
        config = () if "PACKER_EXCLUDE_CLASS" in env else ("--config", "mine.yaml")
        found = run("convert", "photos", *config, "--dry-run", "--json", **env)
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["options"]["exclude_classes"] == ["é"]
        assert json.loads(found.stdout)["classes"] == 1


def test_warnings_are_shown_once_whatever_is_asked_for(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    tree = make_tree(classes=1)
    (tree / "empty").mkdir()
    (tree / "001.class0" / "001_0001.txt").write_text("a caption")
    lines = ["1 class folder without pictures", "packer does not store what lies beside"]
    quiet = run("convert", "photos", *SMALL, "-o", "p0", "-q")
    assert [quiet.stderr.count(f"packer: warning: {line}") for line in lines] == [1, 1]
    events = run("convert", "photos", *SMALL, "-o", "p1", "--json", "--progress", "json")
    said = [json.loads(line) for line in events.stderr.splitlines()]
    warned = [event["text"] for event in said if event["event"] == "warning"]
    assert [text[: len(line)] for text, line in zip(warned, lines, strict=True)] == lines
    assert json.loads(events.stdout)["classes"] == 2
    dry = run("convert", "photos", *SMALL, "--dry-run")
    assert [dry.stderr.count(f"packer: warning: {line}") for line in lines] == [1, 1]
    assert "packer: 2 classes\n" in dry.stderr


def test_a_dry_run_counts_what_is_missing(run: Run, make_tree: MakeTree) -> None:
    (make_tree(classes=1) / "001.class0" / "gone.jpg").symlink_to("nowhere.jpg")
    found = run("convert", "photos", *SMALL, "--dry-run")
    assert "missing: 1 of 9 pictures; first: 001.class0/gone.jpg: a link to" in found.stderr


def test_the_default_output_is_called_as_the_folder_is(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree("flowers", classes=1, each=2)
    made = run("convert", "flowers/001.class0/..", *SMALL)
    assert made.stdout == f"{tmp_path}/flowers-32-jpeg-tar\n", made.stderr
    assert "packer: 1 class\n" in made.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("https://example.org/x.tar",), "packer convert does not download"),
        (("caltech101",), "packer's recipes: caltech256, folder, imagenet, sample"),
        (("photos", "--format", "webdataset"), "did you mean 'tar'?"),
    ],
)
def test_wrong_names(run: Run, make_tree: MakeTree, arguments: tuple[str, ...], says: str) -> None:
    make_tree(classes=1, each=1)
    found = run("convert", *arguments)
    assert found.returncode == 2
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert "did you mean 'caltech256'" not in found.stderr
