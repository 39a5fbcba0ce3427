from __future__ import annotations

import pickle
from typing import Any

import pytest
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, PackedDataset, WindowSampler
from packer.reader.order.options import Tail
from tests.packs import BuildPack


@pytest.mark.parametrize("shuffle", ["none", "batch", "window", "full"])
@pytest.mark.parametrize("tail", [None, "drop", "pad", "keep"])
def test_gives_the_streams_order(build_pack: BuildPack, shuffle: str, tail: str | None) -> None:
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


def test_says_what_dataloader_and_lightning_ask(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4, 4]]).root)
    sampler = WindowSampler(dataset, 3)
    assert (sampler.batch_size, sampler.drop_last) == (3, True)
    assert WindowSampler(dataset, 3, shuffle="none").drop_last is False
    assert all(isinstance(sample, int) for samples in sampler for sample in samples)


def test_frameworks_find_set_epoch(build_pack: BuildPack) -> None:
    """Lightning calls it on `batch_sampler.sampler`, accelerate and torch on others."""
    root = build_pack([[4, 4]]).root
    sampler = WindowSampler(PackedDataset(root), 3)
    loader = Loader(root, batch_size=3, threads=1)
    sampler.sampler.set_epoch(4)
    loader.batch_sampler.sampler.set_epoch(4)
    assert sampler.epoch == loader.epoch == 4
    assert isinstance(sampler, BatchSampler)
    assert sampler.batch_size == loader.batch_sampler.batch_size == 3


def test_a_framework_makes_it_anew(build_pack: BuildPack) -> None:
    """As Lightning does with the arguments that it has seen: all options stay, and the ranks are
    those of the sampler that it puts in.
    """
    dataset: Any = PackedDataset(build_pack([[4, 4], [3]]).root)
    options: dict[str, Any] = {"window": 2, "seed": 3, "tail": "pad"}
    for rank in range(2):
        injected: Any = DistributedSampler(dataset, num_replicas=2, rank=rank)
        made = WindowSampler(dataset, 3, sampler=injected, **options)
        assert list(made) == list(WindowSampler(dataset, 3, rank=rank, world_size=2, **options))
        given = WindowSampler(dataset, 3, sampler=injected, rank=0, world_size=1)
        assert len(given) == 3
    sequential = SequentialSampler(dataset)
    assert list(WindowSampler(dataset, 3, sampler=sequential)) == list(WindowSampler(dataset, 3))


def test_drop_last_by_a_framework(build_pack: BuildPack) -> None:
    """For predictions, Lightning asks for all samples."""
    dataset = PackedDataset(build_pack([[4, 4], [3]]).root)
    cases: list[tuple[Tail | None, bool | None, str]] = [
        (None, None, "drop"),
        (None, False, "keep"),
        ("drop", False, "keep"),
        ("pad", False, "pad"),
        ("keep", True, "drop"),
        ("drop", True, "drop"),
    ]
    for tail, drop_last, expected in cases:
        sampler = WindowSampler(dataset, 3, tail=tail, drop_last=drop_last)
        assert sampler.schedule.options.tail == expected
        assert sampler.drop_last is (expected == "drop")


def test_a_framework_that_loses_the_options(build_pack: BuildPack) -> None:
    """As Lightning with a DataLoader that was made outside of its hooks."""
    sampler = WindowSampler(PackedDataset(build_pack([[4, 4]]).root), 3)
    for error in (TypeError, UsageError):
        with pytest.raises(error, match=r"use_distributed_sampler=False") as caught:
            type(sampler)(
                SequentialSampler(range(8)),  # type: ignore[arg-type]
                batch_size=sampler.batch_size,
                drop_last=sampler.drop_last,
            )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_each_loop_is_the_next_epoch(build_pack: BuildPack) -> None:
    sampler = WindowSampler(PackedDataset(build_pack([[4, 4]]).root), 2)
    epochs = [list(sampler) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert sampler.epoch == 3
    iter(sampler)  # as DataLoader does: no loop begins
    sampler.set_epoch(0)
    assert [list(sampler) for _ in range(3)] == epochs


def test_an_epoch_of_nothing_is_warned_of(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4, 4]]).root)
    with pytest.warns(UserWarning, match=r"fewer samples \(8\) than .* mini-batch \(5 x 2\)"):
        assert len(WindowSampler(dataset, 5, rank=0, world_size=2)) == 0
    assert len(WindowSampler(dataset, 5, tail="pad", rank=0, world_size=2)) == 1


def test_what_cannot_be_is_refused(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    with pytest.raises(UsageError, match="unknown shuffle"):
        WindowSampler(dataset, 2, shuffle="yes")  # type: ignore[arg-type]
