from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import DamageError
from packer.formats._lmdb_tree import read_tree


def _write(path: Path, values: dict[bytes, bytes], commits: int = 1) -> None:
    """Any order, several commits: unlike ours, as others write."""
    keys = list(values)
    with lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 24) as env:
        for commit in range(commits):
            with env.begin(write=True) as transaction:
                for key in keys[commit::commits]:
                    transaction.put(key, values[key])


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 6000), max_size=150, unique=True),
    commits=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_finds_what_lmdb_holds(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], commits: int, seed: int
) -> None:
    draw = random.Random(seed)
    values = {b"%d-%d" % (draw.randrange(10**9), n): draw.randbytes(n) for n in sizes}
    path = tmp_path_factory.mktemp("tree") / "data.lmdb"
    _write(path, values, commits)
    tree = read_tree(path)
    data = path.read_bytes()
    assert list(tree.values) == sorted(values)
    for key, (offset, size) in tree.values.items():
        assert data[offset : offset + size] == values[key]
        assert offset + size <= tree.pages * tree.page_bytes
    path.unlink()


def test_deep_tree(tmp_path: Path) -> None:
    values = {b"%0200d" % number: b"v%d" % number for number in range(3000)}
    _write(tmp_path / "data", values, 7)
    with lmdb.open(str(tmp_path / "data"), subdir=False, readonly=True, lock=False) as env:
        assert env.stat()["depth"] > 2
    data = (tmp_path / "data").read_bytes()
    found = read_tree(tmp_path / "data").values
    assert {key: data[o : o + n] for key, (o, n) in found.items()} == values


@pytest.mark.parametrize("content", [b"", b"x" * 10, bytes(5000), b"\xff" * 20_000])
def test_refuses_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(DamageError, match="data: not a readable LMDB data file"):
        read_tree(tmp_path / "data")


def test_refuses_nested_databases(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path / "data"), subdir=False, lock=False, max_dbs=2) as env:
        env.open_db(b"inner")
    with pytest.raises(DamageError, match="nested database"):
        read_tree(tmp_path / "data")


def test_damage_is_never_a_crash(tmp_path: Path) -> None:
    """Any byte of the tree's pages may be wrong: an answer or a DamageError, within a second."""
    path = tmp_path / "data"
    _write(path, {b"%04d" % number: b"x" * 30 for number in range(400)})
    good = path.read_bytes()
    draw = random.Random(0)
    damaged: Any = None
    refused = 0
    for _ in range(400):
        damaged = bytearray(good)
        for _ in range(3):
            damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            read_tree(path)
        except DamageError:
            refused += 1
    assert refused > 0
    for length in range(0, len(good), 997):
        path.write_bytes(good[:length])
        with pytest.raises(DamageError):
            read_tree(path)
