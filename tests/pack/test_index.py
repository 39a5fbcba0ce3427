from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from packer.errors import DamageError
from packer.files import mapped
from packer.pack.index import ALIGNMENT, MAGIC, IndexFile, encode_index
from packer.types import Array

_DTYPES = st.sampled_from(["<i8", ">i8", "<i4", "<u4", ">u2", "u1", "?", "<f8", "<f4"])
_ARRAYS = st.dictionaries(
    st.text(max_size=8),
    _DTYPES.flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, min_side=0, max_side=4))
    ),
    max_size=6,
)
_JSON = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)


def _write(path: Path, arrays: dict[str, Array], meta: dict[str, Any] | None = None) -> Path:
    path.write_bytes(encode_index(arrays, meta or {}))
    return path


def _some_arrays() -> dict[str, Array]:
    return {
        "batch_offset": np.arange(5, dtype="<i8") * 1000,
        "label": np.array([3, -1, 2], "<i4"),
        "empty": np.zeros(0, "<i8"),
        "shard_sha256": np.arange(64, dtype="u1").reshape(2, 32),
        "path_bytes": np.frombuffer(b"a/b.jpgc/d.jpg", "u1"),
    }


def _file(header: bytes, crc: int | None = None, length: int | None = None) -> bytes:
    crc = zlib.crc32(header) if crc is None else crc
    length = len(header) if length is None else length
    return struct.pack("<8sQII", MAGIC, length, crc, 0) + header


@settings(max_examples=60, deadline=None)
@given(arrays=_ARRAYS, meta=_JSON)
def test_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Array], meta: dict[str, Any]
) -> None:
    path = _write(tmp_path_factory.mktemp("index") / "x.index", arrays, meta)
    index = IndexFile(path)
    assert index.names() == list(arrays)
    assert index.meta == meta
    for name, array in arrays.items():
        assert name in index
        stored = index[name]
        assert stored.dtype == array.dtype.newbyteorder("<")
        assert stored.shape == array.shape
        assert stored.tobytes() == array.astype(stored.dtype).tobytes()
        assert not stored.flags.writeable
    assert encode_index(arrays, meta) == path.read_bytes()
    path.unlink()


def test_arrays_are_aligned_and_in_order(tmp_path: Path) -> None:
    data = encode_index(_some_arrays(), {})
    (length,) = struct.unpack_from("<Q", data, 8)
    entries = json.loads(data[24 : 24 + length])["arrays"]
    offsets = [entry["offset"] for entry in entries]
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    assert offsets == sorted(offsets)
    assert offsets[0] >= 24 + length


def test_any_views_can_be_written(tmp_path: Path) -> None:
    table = np.arange(12, dtype=">i8").reshape(3, 4)
    index = IndexFile(_write(tmp_path / "x", {"column": table[:, 1], "turned": table.T}))
    assert index["column"].tolist() == [1, 5, 9]
    assert np.array_equal(index["turned"], table.T)


def test_unknown_arrays_are_ignored_and_missing_ones_named(tmp_path: Path) -> None:
    index = IndexFile(_write(tmp_path / "x.index", {**_some_arrays(), "later": np.zeros(3)}))
    assert index["label"].tolist() == [3, -1, 2]
    assert "colour" not in index
    with pytest.raises(DamageError, match=r"x\.index: has no array 'colour'"):
        index["colour"]


def test_every_flipped_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """Whatever byte is wrong: the same arrays (it was padding), or a DamageError that names the
    file; never another exception, never other data.
    """
    arrays = _some_arrays()
    good = encode_index(arrays, {"kind": "shard"})
    path = tmp_path / "x.index"
    found = 0
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        try:
            index = IndexFile(path)
            assert index.meta == {"kind": "shard"}
            assert all(np.array_equal(index[name], array) for name, array in arrays.items())
        except DamageError as error:
            assert "x.index" in str(error)
            found += 1
    (length,) = struct.unpack_from("<Q", good, 8)
    # All of the prefix but its four zero bytes, all of the header, all of the arrays.
    assert found == 20 + length + sum(array.nbytes for array in arrays.values())


def test_every_truncation_is_found(tmp_path: Path) -> None:
    arrays = _some_arrays()
    good = encode_index(arrays, {})
    last_byte = max(position for position, byte in enumerate(good) if byte) + 1
    path = tmp_path / "x.index"
    for length in range(last_byte):
        path.write_bytes(good[:length])
        with pytest.raises(DamageError, match=r"x\.index: "):
            IndexFile(path)


def test_damage_of_one_array_leaves_the_others(tmp_path: Path) -> None:
    """Checksums are compared when an array is first asked for."""
    data = bytearray(encode_index(_some_arrays(), {}))
    data[data.index(b"a/b.jpg")] ^= 1
    (tmp_path / "x").write_bytes(data)
    index = IndexFile(tmp_path / "x")
    assert index["label"].tolist() == [3, -1, 2]
    with pytest.raises(DamageError, match="array 'path_bytes' is damaged"):
        index["path_bytes"]


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [-1]},
        {"shape": [1 << 62, 1 << 62]},
        {"shape": [1.5]},
        {"shape": 3},
        {"shape": None},
        {"offset": -8},
        {"offset": 1 << 70},
        {"offset": "0"},
        {"crc32": None},
        {"dtype": "O"},
        {"dtype": "<U4"},
        {"dtype": "nonsense"},
        {"dtype": None},
        {"dtype": "i4,i4"},
        {"name": ...},
    ],
    ids=str,
)
def test_impossible_entries_are_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    """Headers whose checksum is right, but which no packer wrote."""
    good = {"name": "a", "dtype": "<i8", "shape": [1], "offset": 0, "crc32": 0}
    bad = {name: value for name, value in {**good, **entry}.items() if value is not ...}
    header = json.dumps({"arrays": [bad], "meta": {}}).encode()
    (tmp_path / "x").write_bytes(_file(header) + bytes(64))
    with pytest.raises(DamageError, match=r"x: "):
        IndexFile(tmp_path / "x")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        MAGIC,
        b"not an index at all, but long enough",
        b"PACKIDX2" + bytes(100),
        _file(b""),
        _file(b"{"),
        _file(b"[]"),
        _file(b"null"),
        _file(b'{"arrays": 1, "meta": {}}'),
        _file(b'{"arrays": [1], "meta": {}}'),
        _file(b'{"arrays": []}'),
        _file(b'{"arrays": [], "meta": 3}'),
        _file(b"\xff\xfe"),
        _file(b"[" * 100_000),
        _file(b"{}", crc=1),
        _file(b"{}", length=(1 << 64) - 1),
        _file(b"{}", length=1 << 40),
    ],
    ids=range(17),
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DamageError, match=r"x: "):
        IndexFile(tmp_path / "x")


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(DamageError, match="nothing: is missing"):
        IndexFile(tmp_path / "nothing")
    with pytest.raises(DamageError, match="is not a regular file"):
        IndexFile(tmp_path)


def _sum_labels(index: IndexFile) -> int:
    return int(index["label"].sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_goes_to_other_processes(tmp_path: Path, method: str) -> None:
    """Objects with open files do not pickle; an index pickles into its path, and the other process
    maps the file itself.
    """
    index = IndexFile(_write(tmp_path / "x", {"label": np.arange(100_000, dtype="<i4")}))
    assert _sum_labels(index) == 4999950000
    assert len(pickle.dumps(index)) < 1000
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(_sum_labels, (index,)) == 4999950000


def test_a_change_is_found_by_whoever_asks(tmp_path: Path) -> None:
    """Touching alone is none."""
    path = _write(tmp_path / "x.index", _some_arrays())
    index = IndexFile(path)
    assert index["label"].tolist() == [3, -1, 2]
    index.confirm()
    path.touch()
    index.confirm()
    data = bytearray(path.read_bytes())
    data[data.index(np.array([3, -1, 2], "<i4").tobytes())] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(DamageError, match=r"x\.index: was changed while it was in use"):
            index.confirm()


def test_an_index_that_is_cut_short_while_it_is_mapped(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.index", {"label": np.arange(100_000)})
    index = IndexFile(path)
    labels = index["label"]
    path.write_bytes(path.read_bytes()[:4096])
    assert labels[-1] == 0
    assert index.has_faults()
    with pytest.raises(DamageError, match=r"x\.index: was changed while it was in use"):
        index.confirm()


def test_where_an_index_cannot_be_mapped_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped.NATIVE, "module", None)
    path = _write(tmp_path / "x.index", _some_arrays(), {"kind": "shard"})
    index = IndexFile(path)
    path.write_bytes(b"")
    assert index.meta == {"kind": "shard"}
    assert index["label"].tolist() == [3, -1, 2]
    assert not index["label"].flags.writeable
    index.confirm()
    assert not index.has_faults()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.index")
    with pytest.raises(DamageError, match=r"x\.index: is not a regular file"):
        IndexFile(tmp_path / "x.index")
