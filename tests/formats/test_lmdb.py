from __future__ import annotations

import io
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import lmdb
import numpy as np
import pytest

from packer.errors import OutputError
from packer.formats import lmdb as format_lmdb
from packer.types import Field, Sample
from tests.formats.shards import BuildShard, MakeBatches

FIELDS = (Field("image", "bytes", "jpg"), Field("label", "label", "cls"))


def _sample(slot: int, payload: bytes) -> Sample:
    return Sample(slot, b"p", 1, 1, 1, {"image": payload})


def _info(path: Path) -> tuple[int, int, int]:
    """(last page, last transaction, bytes of a page) as LMDB sees the file."""
    with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as env:
        info = env.info()
        return info["last_pgno"], info["last_txnid"], env.stat()["psize"]


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [10] * 400,  # values inside leaf pages, several levels of the tree
        [100] * 50 + [12_000_000] * 2 + [1] * 20,  # tiny, then far beyond the first map
        [2020, 2021, 2022, 2023, 2024, 2025, 4080, 4081, 4096 * 3 - 16, 4096 * 3 - 15],
    ],
    ids=["one", "small", "growing", "around-page-limits"],
)
def test_batches_of_all_sizes(build: BuildShard, sizes: list[int]) -> None:
    """The map must never run full (MDB_MAP_FULL); each value is in the file, in leaves and overflow
    pages.
    """
    draw = np.random.default_rng(0)
    shard = build("lmdb", FIELDS, [[_sample(i, draw.bytes(n))] for i, n in enumerate(sizes)])
    assert shard.by_offsets() == [payloads for _, _, payloads in shard.expected]
    assert shard.alone() == shard.expected


@pytest.mark.parametrize("sizes", [[], [10] * 40, [50_000] * 9, [30_000_000]])
def test_file_is_sized_to_its_data(build: BuildShard, sizes: list[int]) -> None:
    shard = build("lmdb", FIELDS, [[_sample(i, bytes(n))] for i, n in enumerate(sizes)])
    last_page, _, page_bytes = _info(shard.path)
    data = shard.path.read_bytes()
    size = len(data)
    assert size == (last_page + 1) * page_bytes
    assert size < sum(sizes) + page_bytes * (len(sizes) + 60)
    # The map's size is kept in both meta pages: it follows from the data, in steps of 16 MiB.
    map_sizes = [struct.unpack_from("=Q", data, page * page_bytes + 32)[0] for page in (0, 1)]
    assert all(map_size % (1 << 24) == 0 for map_size in map_sizes)
    assert size <= max(map_sizes) < size + 2 * (1 << 24)


def test_one_commit_a_batch(build: BuildShard, make_batches: MakeBatches) -> None:
    shard = build("lmdb", FIELDS, make_batches([1, 0, 3]))
    assert _info(shard.path)[1] == 3 + 1  # the columns are one more


def test_keys_ascend(build: BuildShard, make_batches: MakeBatches) -> None:
    shard = build("lmdb", FIELDS, make_batches([1] * 1001))
    with (
        lmdb.open(str(shard.path), subdir=False, readonly=True, lock=False) as env,
        env.begin() as transaction,
    ):
        keys = list(transaction.cursor().iternext(values=False))
    batches = [key for key in keys if key.startswith(b"batch/")]
    assert batches == [b"batch/%09d" % number for number in range(1001)] == keys[:1001]
    assert keys[-1] == b"meta"


def test_sealed_shard_opens_read_only(
    build: BuildShard, make_batches: MakeBatches, tmp_path: Path
) -> None:
    """A read-only folder must do: no lock file is written or needed."""
    shard = build("lmdb", FIELDS, make_batches([2]))
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    copy = sealed / "copy.lmdb"
    shutil.copy(shard.path, copy)
    copy.chmod(0o444)
    sealed.chmod(0o555)
    _info(copy)
    assert [path.name for path in sealed.iterdir()] == ["copy.lmdb"]
    sealed.chmod(0o755)


def test_works_under_an_address_space_limit(tmp_path: Path) -> None:
    """Batch systems set `ulimit -v`: a map of a terabyte would fail there."""
    script = """
import resource, sys
from pathlib import Path
from packer.formats.lmdb import Writer
from packer.types import Field, Sample
import lmdb
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), used + (200 << 20)))
writer = Writer(Path(sys.argv[1]), (Field("image", "bytes", "jpg"),), one_size=False)
for slot in range(4):
    writer.add_batch([Sample(slot, b"p", 1, 1, 1, {"image": bytes(10_000_000)})])
writer.close()
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc to know its address space")
    path = tmp_path / "shard"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)
    assert path.stat().st_size > 40_000_000


def test_refuses_batches_that_no_value_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_lmdb, "MAX_BATCH_BYTES", 1000)
    writer = format_lmdb.Writer(tmp_path / "shard", FIELDS, one_size=False)
    writer.add_batch([_sample(0, bytes(1000))])
    with pytest.raises(OutputError, match=r"batch 1 has 1001 bytes.*--batch-size"):
        writer.add_batch([_sample(1, bytes(600)), _sample(2, bytes(401))])
    writer.abort()


def test_limit_is_that_of_the_data_format() -> None:
    assert format_lmdb.MAX_BATCH_BYTES == 4 * 1024**3 - 1


def test_keys_out_of_order_are_noticed(tmp_path: Path) -> None:
    """LMDB's append reports them by its return value alone."""
    writer = format_lmdb.Writer(tmp_path / "shard", FIELDS, one_size=False)
    writer._commit({b"b": b""})
    with pytest.raises(OutputError, match="refused the key b'a'"):
        writer._commit({b"a": b""})
    writer.abort()


@pytest.mark.parametrize("dtype", ["<i8", "<i4", "<u4", "|u1"])
@pytest.mark.parametrize("shape", [(0,), (1,), (12345,), (3, 2)])
def test_npy_bytes(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(dtype)
    data = format_lmdb.npy_bytes(array)
    back = np.load(io.BytesIO(data), allow_pickle=False)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert (len(data) - array.nbytes) % 64 == 0
