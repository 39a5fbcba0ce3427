from __future__ import annotations

import pickle

import numpy as np
import pytest

from packer.errors import DamageError
from packer.pack.opened import Pack
from packer.pack.shards import ShardFiles
from packer.reader import BatchStream, PackedDataset
from packer.reader.selected import SelectedPack
from tests.packs import BuildPack

SHARDS = [[4, 0, 4], [3], [4, 9]]
TOTAL = 24


def test_only_what_is_selected_is_read(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class of a pack costs its own bytes, not those of all batches."""
    built = build_pack([[40] * 5], sizes=[(40, 30)])
    part = PackedDataset(built.root).select(samples=[3, 4, 120])
    sizes = []
    real = ShardFiles.read

    def read(
        self: ShardFiles, shard: int, offset: int, size: int, announced: bool = False
    ) -> memoryview:
        sizes.append(size)
        return real(self, shard, offset, size, announced)

    monkeypatch.setattr(ShardFiles, "read", read)
    assert len(list(BatchStream(part, 3))) == 1
    payload = 40 * 30 * 3
    assert sum(sizes) < 3 * payload + 5000  # tar headers between the two neighbours


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.9])
def test_little_more_than_what_is_selected_is_read(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    """Samples spread over all batches, large enough that the gaps between them are worth it."""
    built = build_pack([[40] * 4], sizes=[(200, 120)])
    part = PackedDataset(built.root).select(fraction=fraction)
    sizes = []
    real = ShardFiles.read

    def read(
        self: ShardFiles, shard: int, offset: int, size: int, announced: bool = False
    ) -> memoryview:
        sizes.append(size)
        return real(self, shard, offset, size, announced)

    monkeypatch.setattr(ShardFiles, "read", read)
    assert len(list(BatchStream(part, 4, window=2, tail="keep"))) == -(-len(part) // 4)
    assert sum(sizes) < 2 * len(part) * 200 * 120 * 3
    if fraction == 0.9:
        assert len(sizes) == 4  # whole batches, once each


def test_pickles_into_a_bit_a_sample(build_pack: BuildPack) -> None:
    """CL04: a worker's start costs little, whatever is selected."""
    built = build_pack([[100] * 20], sizes=[(2, 2)])
    whole = PackedDataset(built.root)
    part = whole.select(fraction=0.5)
    assert len(pickle.dumps(part)) < len(pickle.dumps(whole)) + 2000 / 8 + 300
    copy = pickle.loads(pickle.dumps(part))
    assert copy.keys == part.keys
    assert copy.pack.identity == part.pack.identity != whole.pack.identity


def test_identity_tells_selections_apart(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root)
    selections = [
        dataset,
        dataset.select(first=5),
        dataset.select(first=6),
        dataset.select(samples=[1]),
    ]
    assert len({part.pack.identity for part in selections}) == 4
    assert dataset.select(samples=range(5)).pack.identity == selections[1].pack.identity


def test_damage_names_the_batch_of_the_pack(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, sizes=[(20, 20)])
    whole = PackedDataset(built.root)
    offset = int(whole.pack.index["image.offset"][20])
    shard = built.shard(2)
    data = bytearray(shard.read_bytes())
    data[offset + 300] ^= 1
    shard.write_bytes(data)
    part = PackedDataset(built.root, decode="numpy").select(samples=[1, 20])
    assert part[0]
    with pytest.raises(DamageError, match=r"train-000002\.tar, batch 5, .*class0/20\.v1\.jpg"):
        part[1]


def test_a_batch_of_absent_fields_alone_is_read_as_nothing(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    selected = SelectedPack(Pack(built.root), np.zeros(TOTAL, np.bool_))
    assert len(selected) == 0
    assert selected.index["batch_bytes"].tolist() == [0] * 6
    assert "path_bytes" not in selected.index
    assert list(BatchStream(PackedDataset(built.root).select(first=0), 4, tail="keep")) == []
