"""Packs inside of a source; test_agreement.py tests which files are passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from packer.convert import convert_dataset
from packer.sources import _packs
from tests.fixtures import MakeTree


def test_a_real_pack_is_one(make_tree: MakeTree, tmp_path: Path) -> None:
    out = convert_dataset(make_tree(classes=1, each=2), tmp_path / "pack").out
    names = {path.name.encode() for path in out.iterdir()}
    head = (out / "manifest.json").read_bytes()[: _packs.HEAD_BYTES]
    assert _packs.is_pack(names, lambda: head)
    assert not _packs.is_pack(names, lambda: b"{}")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"packer": "packer", "version": 1}', True),
        (b'{\n  "name": "x",\n  "packer" :  "packer"', True),
        (b'{"packer": "hashicorp"}', False),
        (b'{"name": "packer"}', False),
        (b"", False),
    ],
)
def test_only_a_manifest_of_packers_counts(head: bytes, expected: bool) -> None:
    assert _packs.is_pack({b"manifest.json"}, lambda: head) is expected


def test_no_manifest_is_read_where_there_is_none() -> None:
    def refuse() -> bytes:
        raise AssertionError("nothing to read")

    assert not _packs.is_pack({b"1.jpg"}, refuse)
    assert _packs.is_pack({b".packer"}, refuse)
