from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
    # What torchdata's loader calls of torch.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

#: torchdata has no types.
StatefulDataLoader: Any = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

STREAMS: dict[str, Callable[[PackedDataset], Any]] = {
    "BatchStream": lambda dataset: BatchStream(dataset, 4),
    "MixedStream": lambda dataset: MixedStream([BatchStream(dataset, 4)]),
    "Loader": lambda dataset: Loader(dataset, batch_size=4, threads=1),
}
WORDS = r"yields whole mini-batches.*\(DataLoader\(stream, batch_size=None\)\)"


@pytest.fixture
def dataset(build_pack: BuildPack) -> PackedDataset:
    return PackedDataset(build_pack([[4, 4], [4]]).root)


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
def test_a_batch_size_is_refused(dataset: PackedDataset, make: Any, loader: Any) -> None:
    for options in ({}, {"batch_size": 32}, {"batch_size": 4, "drop_last": True}):
        with pytest.raises(UsageError, match=WORDS) as caught:
            iter(loader(make(dataset), **options))
        assert "\n" not in str(caught.value)
    assert next(iter(loader(make(dataset), batch_size=None))).image.shape == (4, 3, 6, 8)


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_in_workers_as_well(dataset: PackedDataset, make: Any) -> None:
    loop: Any = iter(DataLoader(make(dataset), num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(UsageError, match=WORDS):
        next(loop)
    loop._shutdown_workers()  # at once; torch lets it wait for 5 s after an error


def test_streams_one_after_the_other(dataset: PackedDataset) -> None:
    both: Any = BatchStream(dataset, 4) + BatchStream(dataset, 4)
    with pytest.raises(UsageError, match=WORDS):
        list(DataLoader(both))
    assert len(list(DataLoader(both, batch_size=None))) == 6


def test_the_loop_that_was_refused_does_not_count(dataset: PackedDataset) -> None:
    stream = BatchStream(dataset, 4)
    with pytest.raises(UsageError):
        list(DataLoader(stream))
    assert stream.epoch == 0


def only(mini_batches: list[Any]) -> Any:
    (mini_batch,) = mini_batches
    return mini_batch


class Samples(IterableDataset[Any]):
    """A user's own, that takes mini-batches apart."""

    def __init__(self, stream: BatchStream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        for images, labels in self.stream:
            yield from zip(images, labels, strict=True)


def test_what_makes_sense_is_left_alone(dataset: PackedDataset) -> None:
    loop: Any = DataLoader(BatchStream(dataset, 4), batch_size=1, collate_fn=only)
    assert [images.shape for images, _ in loop] == [(4, 3, 6, 8)] * 3
    found: Any = DataLoader(Samples(BatchStream(dataset, 4)), batch_size=6)
    assert [images.shape for images, _ in found] == [(6, 3, 6, 8)] * 2
    for images, _ in BatchStream(dataset, 4):
        assert isinstance(images, torch.Tensor)


class Shard(IterableDataset[Any]):
    """accelerate's IterableDatasetShard, as far as it matters here: it yields what it gets."""

    __module__ = "accelerate.data_loader"

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        yield from self.dataset


def test_behind_accelerate_as_well(dataset: PackedDataset) -> None:
    shard: Any = Shard(BatchStream(dataset, 4))
    with pytest.raises(UsageError, match=WORDS):
        list(DataLoader(shard))
    assert len(list(DataLoader(shard, batch_size=None))) == 3
