from __future__ import annotations

from typing import Any

import pytest

from packer.errors import UsageError
from packer.reader import BatchStream, PackedDataset, WindowSampler


@pytest.mark.parametrize("shuffle", ["none", "batch", "window", "full"])
@pytest.mark.parametrize("tail", [None, "drop", "pad", "keep"])
def test_gives_the_streams_order(build_pack: Any, shuffle: str, tail: str | None) -> None:
    dataset = PackedDataset(build_pack([[4, 4], [3], [4]]).root, decode="bytes")
    for rank in range(2):
        options: dict[str, Any] = {
            "shuffle": shuffle, "window": 2, "seed": 3, "tail": tail, "rank": rank, "world_size": 2
        }  # fmt: skip
        sampler = WindowSampler(dataset, 3, **options)
        stream = BatchStream(dataset, 3, fields=["key"], **options)
        for epoch in (0, 4):
            sampler.set_epoch(epoch)
            stream.set_epoch(epoch)
            keys = [[dataset.keys[sample] for sample in samples] for samples in sampler]
            assert keys == [batch for (batch,) in stream]
            assert len(sampler) == len(stream) == len(keys)


def test_says_what_dataloader_and_lightning_ask(build_pack: Any) -> None:
    dataset = PackedDataset(build_pack([[4, 4]]).root)
    sampler = WindowSampler(dataset, 3)
    assert (sampler.batch_size, sampler.drop_last) == (3, True)
    assert WindowSampler(dataset, 3, shuffle="none").drop_last is False
    assert all(isinstance(sample, int) for samples in sampler for sample in samples)


def test_each_loop_is_the_next_epoch(build_pack: Any) -> None:
    sampler = WindowSampler(PackedDataset(build_pack([[4, 4]]).root), 2)
    epochs = [list(sampler) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert sampler.epoch == 3
    iter(sampler)  # as DataLoader does: no loop begins
    sampler.set_epoch(0)
    assert [list(sampler) for _ in range(3)] == epochs


def test_an_epoch_of_nothing_is_warned_of(build_pack: Any) -> None:
    dataset = PackedDataset(build_pack([[4, 4]]).root)
    with pytest.warns(UserWarning, match=r"8 samples .* fewer than one global mini-batch of 5 x 2"):
        assert len(WindowSampler(dataset, 5, rank=0, world_size=2)) == 0
    assert len(WindowSampler(dataset, 5, tail="pad", rank=0, world_size=2)) == 1


def test_what_cannot_be_is_refused(build_pack: Any) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    with pytest.raises(UsageError, match="unknown shuffle"):
        WindowSampler(dataset, 2, shuffle="yes")
