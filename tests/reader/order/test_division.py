"""Division of batches by accelerate: stand-ins with its classes' names and calls."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from packer.reader.order.division import Division, find_division
from tests.packs import BuildPack

pytestmark = [
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

#: accelerate/data_loader.py, as far as it calls a data set or a sampler.
MODULE = """
class DataLoaderDispatcher:
    def __init__(self, loader, state, split_batches=False):
        self.loader, self.state, self.split_batches = loader, state, split_batches
        self.iteration = 0

    def set_epoch(self, epoch):
        self.iteration = epoch
        batch_sampler = getattr(self.loader, "batch_sampler", None)
        getattr(batch_sampler, "sampler", self.loader.dataset).set_epoch(epoch)

    def __iter__(self):
        self.set_epoch(self.iteration)
        iterator = iter(self.loader)
        if self.state.process_index == 0:
            yield from iterator
        self.iteration += 1

    def __len__(self):
        return len(self.loader)


class BatchSamplerShard:
    def __init__(self, batch_sampler, num_processes, process_index, split_batches=False):
        self.batch_sampler = batch_sampler
        self.num_processes, self.process_index = num_processes, process_index
        self.split_batches = split_batches

    def __len__(self):
        return len(self.batch_sampler) // self.num_processes

    def __iter__(self):
        for number, batch in enumerate(self.batch_sampler):
            if number % self.num_processes == self.process_index:
                yield batch


class IterableDatasetShard:
    def __init__(self, dataset, batch_size):
        self.dataset, self.batch_size, self.num_processes = dataset, batch_size, 2
        self.split_batches = False

    def set_epoch(self, epoch):
        self.dataset.set_epoch(epoch)

    def __iter__(self):
        yield from self.dataset


class DataLoaderShard:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        self.loader.dataset.set_epoch(0)
        yield from self.loader


class SkipDataLoader:
    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        yield from self.loader


def call(self, function):
    return function()
"""


@pytest.fixture
def accelerate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if importlib.util.find_spec("accelerate") is not None:
        pytest.skip("the real one is there: see test_frameworks.py")
    package = tmp_path / "site" / "accelerate"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data_loader.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(package.parent))
    # Ranks of a job, without a process group.
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    yield importlib.import_module("accelerate.data_loader")
    for name in ("accelerate.data_loader", "accelerate"):
        sys.modules.pop(name, None)


def state(rank: int = 0, ranks: int = 2) -> Any:
    return SimpleNamespace(process_index=rank, num_processes=ranks)


def stream_of(root: Path, **options: Any) -> BatchStream:
    dataset = PackedDataset(root, decode="numpy")
    return BatchStream(dataset, 2, **{"window": 2, "fields": ["label", "image"], **options})


def samples_of(batches: Any) -> list[int]:
    """A number that tells the pictures apart."""
    return [int(image.sum()) for batch in batches for image in batch[1]]


def alone(root: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[list[int]]:
    """Two epochs of one rank."""
    with monkeypatch.context() as patched:
        patched.setenv("WORLD_SIZE", "1")
        patched.setenv("RANK", "0")
        stream = stream_of(root, **options)
        return [samples_of(stream), samples_of(stream)]


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "forkserver")])
def test_a_stream_gives_the_dispatcher_everything(
    accelerate: Any,
    build_pack: BuildPack,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    context: str | None,
) -> None:
    """Whose tensors lie straight in memory: other processes receive them as bytes."""
    root = build_pack([[4, 4], [4]]).root
    expected = alone(root, monkeypatch)
    stream = stream_of(root)
    assert len(stream) == 3
    loader: Any = DataLoader(
        stream, batch_size=None, num_workers=workers, multiprocessing_context=context
    )
    prepared = accelerate.DataLoaderDispatcher(loader, state())
    assert len(prepared) == 6
    first = list(prepared)
    assert all(batch.image.is_contiguous() for batch in first)
    assert samples_of(first) == expected[0]
    assert stream.state_dict(step=2)["position"] == 8
    with pytest.raises(UsageError, match="step=n"):
        stream.state_dict()
    for batch in prepared:  # left: accelerate does not count it
        assert samples_of([batch]) == expected[1][:2]
        break
    assert (prepared.iteration, stream.epoch) == (1, 2)
    prepared.set_epoch(1)  # but it can be asked for
    assert samples_of(prepared) == expected[1]
    assert len(samples_of(stream)) == 6  # outside of it, a rank's part


def test_all_processes_agree_on_the_epoch(
    accelerate: Any, build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that only receive, and read nothing, in workers neither."""
    root = build_pack([[4, 4], [4]]).root
    states = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        for workers in (0, 2):
            stream = stream_of(root)
            stream.load_state_dict({**stream.state_dict(), "epoch": 3, "position": 4})
            loader: Any = DataLoader(stream, batch_size=None, num_workers=workers)
            prepared = accelerate.DataLoaderDispatcher(loader, state(rank))
            count = len(list(prepared))
            assert count == (4 if rank == 0 else 0)
            states.append((stream.state_dict(step=1), stream.epoch))
            list(prepared)
            states.append((stream.state_dict(step=1), stream.epoch))
    assert states[0][0]["position"] == 8
    assert [epoch for _, epoch in states] == [4, 5] * 4
    assert states == states[:2] * 4


def test_a_split_mini_batch_counts_once(accelerate: Any, build_pack: BuildPack) -> None:
    stream = stream_of(build_pack([[4, 4], [4]]).root)
    loader: Any = DataLoader(stream, batch_size=None)
    list(accelerate.DataLoaderDispatcher(loader, state(), split_batches=True))
    assert stream.state_dict(step=5)["position"] == 10
    with pytest.raises(UsageError, match="out of range: 0 to 6 "):
        stream.state_dict(step=7)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_sampler_gives_each_shard_everything(
    accelerate: Any, build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    dataset: Any = PackedDataset(build_pack([[4, 4], [4]]).root, decode="bytes")
    sampler = WindowSampler(dataset, 2, window=2)
    with monkeypatch.context() as patched:
        patched.setenv("WORLD_SIZE", "1")
        patched.setenv("RANK", "0")
        expected = [list(sampler), list(sampler)]
    sampler.set_epoch(0)
    shard = accelerate.BatchSamplerShard(sampler, 2, rank)
    loader = DataLoader(dataset, batch_sampler=shard, collate_fn=len)
    assert (len(loader), len(sampler)) == (3, 3)
    assert len(list(loader)) == 3
    assert sampler.state_at(2)["position"] == 8
    assert list(shard) == expected[1][rank::2]
    assert sampler.epoch == 2


def test_all_kinds_of_streams(
    accelerate: Any, build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_pack([[4, 4], [4]]).root
    expected = alone(root, monkeypatch)
    mixed = MixedStream([stream_of(root)])
    threads = Loader(root, batch_size=2, window=2, fields=["label", "image"], threads=1)
    for source in (mixed, threads):
        for workers in (0, 2):
            source.set_epoch(0)
            loader: Any = DataLoader(source, batch_size=None, num_workers=workers)
            prepared = accelerate.DataLoaderDispatcher(loader, state())
            found = [samples_of(prepared) for _ in range(2)]
            assert [sorted(epoch) for epoch in found] == [sorted(epoch) for epoch in expected]
            assert source.epoch == 2
            receiving = accelerate.DataLoaderDispatcher(loader, state(1))
            assert (list(receiving), source.epoch) == ([], 3)


def test_what_does_not_divide_is_left_alone(accelerate: Any, build_pack: BuildPack) -> None:
    """skip_first_batches of a loader that was not prepared; and code that merely runs there."""
    stream = stream_of(build_pack([[4, 4], [4]]).root)
    loader: Any = DataLoader(stream, batch_size=None)
    assert len(samples_of(accelerate.SkipDataLoader(loader))) == 6
    assert accelerate.call(stream, find_division) is None
    shard = accelerate.DataLoaderShard(loader)  # as for one process alone
    assert len(samples_of(shard)) == 12
    assert stream.epoch == 2


def test_what_accelerate_cannot_send_is_refused(accelerate: Any, build_pack: BuildPack) -> None:
    root = build_pack([[4, 4], [4]], sizes=[(8, 6), (5, 7)], extra=True).root
    for field, options in (("key", {}), ("note", {}), ("image", {}), ("key", {"as_dict": True})):
        stream = stream_of(root, fields=["label", field], **options)
        loader: Any = DataLoader(stream, batch_size=None)
        with pytest.raises(UsageError, match=f"cannot send the field '{field}'.*out of prepare"):
            list(accelerate.DataLoaderDispatcher(loader, state()))
    stream = stream_of(root, fields=["label"], as_dict=True)
    loader = DataLoader(stream, batch_size=None)
    batches = list(accelerate.DataLoaderDispatcher(loader, state()))
    assert [batch["label"].shape for batch in batches] == [torch.Size([2])] * 6


def test_what_accelerate_cannot_divide_is_refused(accelerate: Any, build_pack: BuildPack) -> None:
    """It would be a TypeError: None * 2."""
    stream = stream_of(build_pack([[4, 4], [4]]).root)
    shard = accelerate.IterableDatasetShard(stream, None)
    begins: list[Callable[[], Any]] = [lambda: shard.set_epoch(0), lambda: next(iter(shard))]
    for begin in begins:
        with pytest.raises(UsageError, match=r"dispatch_batches=False.*leave out"):
            begin()
    list(accelerate.IterableDatasetShard(stream, 1))
    assert stream.state_dict(step=2)["position"] == 8


def test_without_accelerate() -> None:
    assert find_division() is None


def test_an_epoch_that_only_accelerate_knows(accelerate: Any, build_pack: BuildPack) -> None:
    """Its set_epoch ends at its skip_first_batches; but what was said to the sampler holds."""
    dataset: Any = PackedDataset(build_pack([[4, 4], [4]]).root, decode="bytes")
    sampler = WindowSampler(dataset, 2)
    dataset.set_epoch = lambda epoch: None
    shard = accelerate.BatchSamplerShard(sampler, 2, 0)
    loader = accelerate.DataLoaderShard(DataLoader(dataset, batch_sampler=shard, collate_fn=len))
    loader.iteration = 3
    for epoch in (3, 4):
        list(loader)
        assert sampler.state_at(0)["epoch"] == epoch
    sampler.set_epoch(1)
    list(loader)
    assert sampler.epoch == 2
    sampler.resume_from({**sampler.state_at(0), "epoch": 0, "position": 4})
    list(loader)
    assert sampler.state_at(0) == {**sampler.state_at(0), "epoch": 0, "position": 4}


def test_divisions(accelerate: Any) -> None:
    dispatcher = accelerate.DataLoaderDispatcher(None, state(1, 3))
    assert accelerate.call(dispatcher, find_division) == Division(3, True, False, None)
    dispatcher.submesh_tp = object()  # a tensor-parallel group gets the same mini-batch
    assert accelerate.call(dispatcher, find_division) == Division(1, True, False, None)
    shard = accelerate.BatchSamplerShard(None, 3, 0, split_batches=True)
    assert accelerate.call(shard, find_division) == Division(1, False, True, None)
