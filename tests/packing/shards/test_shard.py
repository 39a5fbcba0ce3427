import zlib
from pathlib import Path

import pytest

from packer import registry
from packer.errors import OutputError
from packer.pack.index import IndexFile
from packer.packing.shards.shard import WORK_FOLDER, ShardBuilder
from packer.types import Field, Sample

FIELDS = (Field("image", "image", "jpg", "jpeg"), Field("label", "label", "cls"))


@pytest.fixture(params=registry.names("formats"))
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _samples(first: int, count: int) -> list[Sample]:
    return [
        Sample(n, b"a/%d.jpg" % n, n % 3, 2, 2, {"image": b"%d" % n * 50})
        for n in range(first, first + count)
    ]


def _builder(out: Path, format_name: str) -> ShardBuilder:
    (out / WORK_FOLDER).mkdir(exist_ok=True)
    name = f"train-000000.{registry.load('formats', format_name).EXTENSION}"
    builder = ShardBuilder(out, name, format_name, FIELDS, one_size=False)
    builder.add_batch(_samples(0, 3))
    builder.add_batch([])
    builder.add_batch(_samples(6, 2))
    return builder


def test_nothing_has_its_final_name_before_publishing(tmp_path: Path, format_name: str) -> None:
    builder = _builder(tmp_path, format_name)
    record = builder.finish()
    assert [path.name for path in tmp_path.iterdir()] == [WORK_FOLDER]
    builder.publish()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted([WORK_FOLDER, "train-000000.index", record.name])
    assert not list((tmp_path / WORK_FOLDER).iterdir())
    assert (record.samples, record.batches) == (5, 3)
    index = IndexFile(tmp_path / "train-000000.index")
    data = (tmp_path / record.name).read_bytes()
    assert len(data) == record.size
    for sample in range(5):
        offset, size = index["image.offset"][sample], index["image.size"][sample]
        assert zlib.crc32(data[offset : offset + size]) == index["image.crc32"][sample]


def test_the_same_shard_made_twice_is_accepted_another_one_is_not(
    tmp_path: Path, format_name: str
) -> None:
    first, second, third = (_builder(tmp_path, format_name) for _ in range(3))
    third.add_batch(_samples(9, 1))
    for builder in (first, second):
        builder.finish()
        builder.publish()
    third.finish()
    with pytest.raises(OutputError, match="already there with other content"):
        third.publish()
    third.abort()
    assert not list((tmp_path / WORK_FOLDER).iterdir())


@pytest.mark.parametrize("finished", [False, True])
def test_abort_leaves_nothing(tmp_path: Path, format_name: str, finished: bool) -> None:
    builder = _builder(tmp_path, format_name)
    if finished:
        builder.finish()
    builder.abort()
    assert not list((tmp_path / WORK_FOLDER).iterdir())
