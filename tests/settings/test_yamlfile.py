from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from packer.errors import ConfigError
from packer.settings import yamlfile


def load_text(tmp_path: Path, text: str) -> dict[str, object]:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return yamlfile.load(str(path), "packer.recipes", "recipe")[1]


def test_names_come_from_the_package() -> None:
    assert yamlfile.names("packer.recipes") == ("caltech256", "folder", "imagenet", "sample")
    assert yamlfile.names("packer.configs") == ("nfs", "ram", "ssd")


def test_a_pipe_is_read_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.yaml"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=["title: Mine\n" + "#" * 100_000])
    writer.start()
    assert yamlfile.load(str(path), "packer.recipes", "recipe")[1] == {"title": "Mine"}
    writer.join()
    monkeypatch.setattr(yamlfile, "_PIPE_SECONDS", 0)
    with pytest.raises(ConfigError, match="is a pipe to which nobody wrote for 0 s"):
        yamlfile.load(str(path), "packer.recipes", "recipe")


def test_a_name_is_read_from_the_package_a_path_from_disk(tmp_path: Path) -> None:
    where, value = yamlfile.load("caltech256", "packer.recipes", "recipe")
    assert where == "recipe caltech256"
    assert value["title"] == "Caltech-256"
    assert load_text(tmp_path, "title: Mine\n") == {"title": "Mine"}
    assert load_text(tmp_path, "# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "must be lines of the form key: value"),
        ("1: a\n", "must be lines of the form key: value"),
        ("just text", "must be lines of the form key: value"),
        ("title: a\nroot: b\ntitle: c\n", "key 'title' is there twice, line 1"),
        ("archives:\n  - name: a\n    name: b\n", "key 'name' is there twice, line 2"),
        ("title: [a\n", "not readable as YAML: .*line 2"),
        ("title: !!python/object:os.system x\n", "not readable as YAML"),
        ("title: 2026-99-99\n", "holds a value that its type does not have: month"),
        ("title: !!int x\n", "holds a value that its type does not have"),
        ("title: !!bool x\n", "holds a value that its type does not have"),
        ("title: !!timestamp x\n", "holds a value that its type does not have"),
        ("title: " + "9" * 5000 + "\n", "holds a value that its type does not have"),
        ("title: 0x" + "f" * 5000 + "\n", "a number of more than 64 bits, line 1"),
        ("title: " + "[" * 3000 + "\n", "nested too deeply"),
        ("a: &a [1]\nb: [*a, *a]\n", r"alias \*a: write the value again, line 2"),
        ("title: &a [*a]\n", r"alias \*a: write the value again, line 1"),
        ("title: a\n" * 30_000, "cannot be read: has more than 262,144 bytes"),
    ],
)
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.yaml: .*{message}") as caught:
        load_text(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown recipe 'caltech265' \(did you mean 'caltech256'"
    ):
        yamlfile.load("caltech265", "packer.recipes", "recipe")
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read: No such file"):
        yamlfile.load(str(tmp_path / "gone.yaml"), "packer.recipes", "recipe")
    (tmp_path / "latin.yaml").write_bytes(b"title: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml: cannot be read: .*utf-8"):
        yamlfile.load(str(tmp_path / "latin.yaml"), "packer.recipes", "recipe")


def test_another_data_set_is_no_slip_of_the_finger() -> None:
    with pytest.raises(ConfigError) as caught:
        yamlfile.load("caltech101", "packer.recipes", "recipe")
    assert caught.value.hint == "known: caltech256, folder, imagenet, sample"


def test_unknown_keys_are_refused_with_a_suggestion() -> None:
    yamlfile.check_keys("here", {"title": 1}, ["title", "root"])
    with pytest.raises(ConfigError, match=r"here: unknown key 'titel' \(did you mean 'title'"):
        yamlfile.check_keys("here", {"titel": 1}, ["title", "root"])
