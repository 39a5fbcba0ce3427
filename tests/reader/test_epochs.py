"""Each loop is the next epoch, for all readers: real loaders, real worker processes."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

Epoch = list[tuple[Any, ...]]


def stream_of(root: Path, batch_size: int = 2, **options: Any) -> BatchStream:
    dataset = PackedDataset(root, decode="bytes")
    return BatchStream(dataset, batch_size, **{"window": 2, "fields": ["key"], **options})


def loader_of(stream: Any, workers: int, context: str = "fork", **more: Any) -> Any:
    more |= {"multiprocessing_context": context} if workers else {}
    return DataLoader(stream, batch_size=None, num_workers=workers, **more)


def epoch_of(loader: Iterable[Any]) -> Epoch:
    return [tuple(map(str, batch)) for batch in loader]


def expected_of(stream: Any, epochs: int = 4) -> list[Epoch]:
    """Its epochs by number, read one by one in this process."""
    found = []
    for epoch in range(epochs):
        stream.set_epoch(epoch)
        found.append(epoch_of(stream))
    assert len(set(map(str, found))) == epochs
    return found


def ways(root: Path) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """What makes a source of mini-batches, and what is iterated over."""
    stream = stream_of(root)
    mixed = MixedStream([stream_of(root), stream_of(root)], weights=[1, 2])
    threads = Loader(root, batch_size=2, window=2, fields=["key"], threads=2)
    yield "BatchStream", lambda: stream, lambda: stream
    yield "in a DataLoader", lambda: stream, lambda: loader_of(stream, 0)
    yield "MixedStream", lambda: mixed, lambda: mixed
    yield "Loader", lambda: threads, lambda: threads


def test_loops_in_the_training_process(build_pack: BuildPack) -> None:
    for name, source, iterated in ways(build_pack([[4, 4], [4]]).root):
        expected = expected_of(source())
        source().set_epoch(0)
        assert [epoch_of(iterated()) for _ in range(4)] == expected, name
        source().set_epoch(1)
        next(iter(iterated()))  # a loop that is left counts
        iter(iterated())  # one that never begins does not
        assert source().epoch == 2
        assert [epoch_of(iterated()) for _ in range(2)] == expected[2:], name


@pytest.mark.slow
def test_a_loader_with_a_process_of_its_own(build_pack: BuildPack) -> None:
    root = build_pack([[4, 4], [4]]).root
    expected = expected_of(stream_of(root))
    with contextlib.closing(
        Loader(root, batch_size=2, window=2, fields=["key"], threads=1, process="spawn")
    ) as loader:
        assert epoch_of(loader) == expected[0]
        next(iter(loader))
        assert epoch_of(loader) == expected[2]


@pytest.mark.parametrize("persistent", [False, True])
def test_loops_in_workers(build_pack: BuildPack, persistent: bool) -> None:
    """Also more workers than mini-batches, and a loop that was left."""
    root = build_pack([[4], [2]]).root
    expected = expected_of(stream_of(root))
    stream = stream_of(root)
    loader = loader_of(stream, 4, persistent_workers=persistent)
    assert epoch_of(loader) == expected[0]
    assert (stream.epoch, stream.state_dict(step=3)["epoch"]) == (1, 0)
    for _ in loader:
        break
    assert (stream.epoch, stream.state_dict(step=1)["epoch"]) == (2, 1)
    assert epoch_of(loader) == expected[2]
    stream.set_epoch(1)
    assert epoch_of(loader) == expected[1]
    assert stream.epoch == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("context", "workers", "persistent"), [("forkserver", 1, False), ("forkserver", 2, True)]
)
def test_loops_in_workers_that_are_not_forked(
    build_pack: BuildPack, context: str, workers: int, persistent: bool
) -> None:
    """With equal seeds, as below."""
    root = build_pack([[4], [2]]).root
    expected = expected_of(stream_of(root))
    stream = stream_of(root)
    loader = loader_of(stream, workers, context, persistent_workers=persistent)
    for epoch in range(3 if persistent else 2):
        torch.manual_seed(0)
        assert epoch_of(loader) == expected[epoch]
    assert stream.state_dict(step=1)["epoch"] == stream.epoch - 1 == epoch


def test_equal_seeds_of_torch(build_pack: BuildPack) -> None:
    """Scripts set torch's seed before each epoch, or give DataLoader a generator with one seed; and
    loops that are left may not have begun in all their workers.
    """
    root = build_pack([[4], [4]]).root
    expected = expected_of(stream_of(root))
    stream = stream_of(root)
    seen = []
    for leave in (False, True, False):
        torch.manual_seed(0)
        loop = iter(loader_of(stream, 3))
        seen.append([tuple(map(str, next(loop)))])
        if not leave:
            seen[-1] += epoch_of(loop)
        del loop
    assert seen == [expected[0], expected[1][:1], expected[2]]
    generator = torch.Generator()
    for epoch in range(2):
        stream.set_epoch(epoch)
        for offset in range(2):
            loader = loader_of(stream, 2, generator=generator.manual_seed(7))
            assert epoch_of(loader) == expected[epoch + offset]


@pytest.mark.parametrize("persistent", [False, True])
def test_two_loops_at_once(build_pack: BuildPack, persistent: bool) -> None:
    """Of two DataLoaders with equal seeds over one stream. Each is one whole epoch; which of them
    is the earlier one is not defined.
    """
    root = build_pack([[4], [4]]).root
    expected = expected_of(stream_of(root))
    stream = stream_of(root)
    loaders = [
        loader_of(
            stream,
            3,
            persistent_workers=persistent,
            generator=torch.Generator().manual_seed(5),
        )
        for _ in range(2)
    ]
    for epoch in (0, 2):
        seen: list[Epoch] = [[], []]
        for pair in zip(*loaders, strict=True):
            for found, batch in zip(seen, pair, strict=True):
                found.append(tuple(map(str, batch)))
        assert sorted(seen) == sorted(expected[epoch : epoch + 2])


def test_mixed_streams_in_workers(build_pack: BuildPack) -> None:
    root = build_pack([[4, 4], [4]]).root
    make: Callable[[], Any] = lambda: MixedStream([stream_of(root), stream_of(root, seed=1)])  # noqa: E731
    expected = expected_of(make())
    for persistent in (False, True):
        loader = loader_of(make(), 2, persistent_workers=persistent)
        assert [epoch_of(loader) for _ in range(4)] == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_samplers(build_pack: BuildPack, workers: int) -> None:
    """DataLoader asks a sampler for two iterators a loop, and reads ahead."""
    dataset: Any = PackedDataset(build_pack([[4, 4], [4]]).root, decode="bytes")
    sampler = WindowSampler(dataset, 2, window=2)
    expected = expected_of(sampler)
    for persistent in {False, workers > 0}:
        more: dict[str, Any] = {"multiprocessing_context": "fork"} if workers else {}
        loader: Any = DataLoader(
            dataset,
            batch_sampler=sampler,
            num_workers=workers,
            persistent_workers=persistent,
            collate_fn=list,
            **more,
        )
        sampler.set_epoch(0)
        payloads = dataset[0][0], len(expected[0])
        assert payloads[1] == sum(1 for _ in loader)
        assert (sampler.epoch, sampler.state_at(2)["epoch"]) == (1, 0)
        next(iter(loader))
        assert (sampler.epoch, sampler.state_at(1)["epoch"]) == (2, 1)
        images = [image for batch in loader for image, _ in batch]
        numbers = [int(number) for batch in sampler for number in batch]
        assert len(images) == len(numbers) == 12
        assert sampler.epoch == 4
    sampler.set_epoch(0)
    assert [epoch_of(sampler) for _ in range(4)] == expected


def test_a_sampler_inside_of_workers(build_pack: BuildPack) -> None:
    """A data set of the user's own that iterates over a sampler: its workers agree."""
    dataset = PackedDataset(build_pack([[4, 4]]).root, decode="bytes")

    class Own(torch.utils.data.IterableDataset[Any]):
        def __init__(self) -> None:
            self.sampler = WindowSampler(dataset, 2, window=2)

        def __iter__(self) -> Iterator[Any]:
            info: Any = torch.utils.data.get_worker_info()
            return itertools.islice(iter(self.sampler), info.id, None, info.num_workers)

    expected = expected_of(WindowSampler(dataset, 2, window=2))
    own = Own()
    loader = loader_of(own, 2)
    assert [epoch_of(loader) for _ in range(2)] == expected[:2]
    assert own.sampler.epoch == 2


def test_evaluation_keeps_its_order(build_pack: BuildPack) -> None:
    root = build_pack([[4, 4], [3]]).root
    for tail in ("keep", "pad"):
        for source in (
            stream_of(root, 4, shuffle="none", tail=tail),
            Loader(root, batch_size=4, shuffle="none", tail=tail, fields=["key"], threads=1),
            loader_of(stream_of(root, 4, shuffle="none", tail=tail), 2),
        ):
            first = epoch_of(source)
            assert [epoch_of(source) for _ in range(2)] == [first, first]
    assert sorted(epoch_of(stream_of(root, 4, shuffle="none")))


def test_the_loop_that_a_checkpoint_wants(build_pack: BuildPack) -> None:
    """`for epoch in range(stream.epoch, N): stream.set_epoch(epoch)`, and without set_epoch."""
    root = build_pack([[4, 4], [4]]).root
    expected = expected_of(stream_of(root), 5)
    for call in (True, False):
        for workers in (0, 2):
            stream = stream_of(root)
            stream.load_state_dict({**stream.state_dict(), "epoch": 2, "position": 4})
            assert stream.epoch == 2
            loader = loader_of(stream, workers)
            seen = []
            for epoch in range(stream.epoch, 5):
                if call:
                    stream.set_epoch(epoch)
                seen.append(epoch_of(loader))
                assert stream.epoch == epoch + 1
            assert seen == [expected[2][2:], *expected[3:]]


def test_state_and_the_next_loop_agree(build_pack: BuildPack) -> None:
    """After a whole loop; after one that was left, the state is the place in it."""
    root = build_pack([[4, 4], [4]]).root
    expected = expected_of(stream_of(root))
    for stream in (stream_of(root), Loader(root, batch_size=2, window=2, fields=["key"])):
        assert epoch_of(stream) == expected[0]
        state = stream.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
        loop = iter(stream)
        assert stream.state_dict() == state
        next(loop)
        del loop
        left = stream.state_dict()
        assert (left["epoch"], left["position"], stream.epoch) == (1, 2, 2)
        assert epoch_of(stream) == expected[2]
        stream.load_state_dict(left)
        assert epoch_of(stream) == expected[1][1:]
        assert epoch_of(stream) == expected[2]


def test_a_process_that_inherits_a_stream_counts_by_itself(build_pack: BuildPack) -> None:
    """As forked ranks do, and their own workers: first the workers, before the rank calls it."""
    root = build_pack([[4, 4], [4]]).root
    expected = expected_of(stream_of(root))
    stream = stream_of(root)
    loader = loader_of(stream, 2)
    assert epoch_of(stream) == expected[0]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            seen = [epoch_of(loader), epoch_of(stream), epoch_of(loader)]
            code = 0 if seen == expected[1:] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (stream.epoch, epoch_of(loader)) == (1, expected[1])
