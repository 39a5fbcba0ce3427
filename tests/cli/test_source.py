"""The source named on the command line: a list, or any input of `open_input`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from packer.cli._source import open_source
from packer.reporting import Reporter
from packer.sources.listed import ListedSource
from tests.fixtures import MakeTree


class _Warnings(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def test_a_folder_is_opened_as_one(make_tree: MakeTree) -> None:
    tree = make_tree()
    given = open_source(str(tree), _Warnings(), None, False)
    assert (given.name, isinstance(given.source, ListedSource)) == ("photos", False)


@pytest.mark.parametrize("null", [False, True])
def test_a_list_is_read_from_standard_input_or_a_file(
    null: bool, make_tree: MakeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(make_tree().rglob("*.jpg"))
    content = "".join(f"{path}{chr(0) if null else chr(10)}" for path in paths).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    listed = tmp_path / "some.list"
    listed.write_bytes(content)
    for source in ("-", str(listed)):
        said = _Warnings()
        given = open_source(source, said, str(tmp_path / "photos"), null)
        assert isinstance(given.source, ListedSource)
        assert (len(given.source.scan().paths), said.warnings) == (len(paths), [])


def test_a_list_of_one_folder_is_doubted(make_tree: MakeTree, tmp_path: Path) -> None:
    tree = make_tree(classes=2)
    listed = tmp_path / "some.list"
    listed.write_text("".join(f"{path}\n" for path in (tree / "001.class0").iterdir()))
    said = _Warnings()
    open_source(str(listed), said, str(tmp_path), False)
    assert "photos/, which makes one class" in said.warnings[0]
