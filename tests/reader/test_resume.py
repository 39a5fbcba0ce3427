"""Going on in mid-epoch: in new processes, with other workers, ranks and mini-batches."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from packer.errors import UsageError
from packer.reader import BatchStream, PackedDataset, WindowSampler
from packer.reader.order.options import Shuffle
from packer.reader.transforms import RandomResizedCrop
from tests.packs import BuildPack

pytestmark = [
    pytest.mark.slow,
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
    # What torchdata's loader calls of torch.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

SHARDS = [[4, 0, 4, 3], [4, 4, 4], [4, 4, 4, 2]]  # 37 samples
SHUFFLES = ["none", "batch", "window", "full"]


@pytest.fixture(scope="module")
def stateful_loader() -> Any:
    """torchdata's StatefulDataLoader itself, not what we think of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it touches what torch has deprecated
        found = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    return found.StatefulDataLoader


def stream_of(built: Any, batch_size: int = 5, **options: Any) -> BatchStream:
    options = {"window": 3, "fields": ["key"], **options}
    return BatchStream(PackedDataset(built.root, decode="bytes"), batch_size, **options)


def loader_of(stream: BatchStream, workers: int, **more: Any) -> DataLoader[Any]:
    more |= {"multiprocessing_context": "fork"} if workers else {}
    return DataLoader(stream, batch_size=None, num_workers=workers, **more)


def batches_of(source: Iterable[Any]) -> list[list[str]]:
    return [list(batch.key) for batch in source]


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    """As a checkpoint keeps it; and small."""
    text = json.dumps(state)
    assert len(text) < 400
    return json.loads(text)  # type: ignore[no-any-return]


def burn_random_numbers() -> None:
    random.random()
    np.random.random()
    torch.rand(3)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("tail", ["drop", "pad", "keep"])
def test_a_direct_loop_goes_on(build_pack: BuildPack, shuffle: str, tail: str) -> None:
    """A resumed epoch must neither repeat nor skip: after every number of mini-batches, 0 and the
    last included.
    """
    built = build_pack(SHARDS)
    options: dict[str, Any] = {"shuffle": shuffle, "tail": tail, "seed": 3}
    stream = stream_of(built, **options)
    stream.set_epoch(2)
    whole = batches_of(stream)
    stream.set_epoch(3)
    following = batches_of(stream)
    for stop in range(len(whole) + 1):
        first = stream_of(built, **options)
        first.set_epoch(2)
        running = iter(first)
        seen = [list(next(running).key) for _ in range(stop)]
        state = through_json(first.state_dict())
        assert state["epoch"] == 2
        burn_random_numbers()
        second = stream_of(built, **options)
        second.load_state_dict(state)
        assert len(second) == len(whole)
        if stop < len(whole):
            assert second.epoch == 2
            assert second.state_dict() == state
        else:
            assert second.epoch == 3
            assert second.state_dict() == {**state, "epoch": 3, "position": 0}
            second.set_epoch(2)  # as a loop does that counts epochs by itself
        assert seen + batches_of(second) == whole
        second.set_epoch(3)
        assert batches_of(second) == following


def test_the_state_counts_what_the_loop_has(build_pack: BuildPack) -> None:
    stream = stream_of(build_pack(SHARDS))
    states = [stream.state_dict()["position"]]
    for _ in stream:
        states.append(stream.state_dict()["position"])
    assert states == [0, 5, 10, 15, 20, 25, 30, 35]


def test_an_epochs_end_loses_and_repeats_nothing(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    stream = stream_of(built)
    stream.set_epoch(1)
    for _ in stream:
        inside = stream.state_dict()  # the last one: saved by the loop's body
    after = stream.state_dict()
    assert (after["epoch"], after["position"]) == (2, 0)
    stream.set_epoch(2)
    second_epoch = batches_of(stream)
    for state in (inside, after):
        resumed = stream_of(built)
        resumed.load_state_dict(state)
        assert resumed.epoch == 2
        assert batches_of(resumed) == second_epoch
    resumed.load_state_dict(inside)
    for epoch, expected in ((1, []), (2, second_epoch)):  # a loop that counts epochs by itself
        resumed.set_epoch(epoch)
        assert batches_of(resumed) == expected


def test_ranks_agree_on_an_epochs_end(build_pack: BuildPack) -> None:
    """With tail="keep", one rank may have a mini-batch left where another has none."""
    built = build_pack(SHARDS)
    for rank in range(2):
        stream = stream_of(built, 3, tail="keep", rank=rank, world_size=2)
        stream.load_state_dict({**stream.state_dict(), "position": 36})
        assert (stream.epoch, len(batches_of(stream))) == (0, 1 - rank)


def test_without_set_epoch_only_the_first_loop_is_shorter(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    stream = stream_of(built)
    whole = batches_of(stream)
    state = next(state for _, state in zip(range(3), states_along(stream), strict=False))
    for workers, persistent in ((0, False), (2, False), (2, True)):
        resumed = stream_of(built)
        resumed.load_state_dict(state)
        loader = loader_of(resumed, workers, persistent_workers=persistent)
        lengths = [len(batches_of(loader)) for _ in range(3)]
        assert lengths == [len(whole) - 1, len(whole), len(whole)]


def states_along(stream: BatchStream) -> Iterable[dict[str, Any]]:
    for _ in stream:
        yield stream.state_dict()


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_workers_go_on_with_a_step(build_pack: BuildPack, shuffle: str) -> None:
    """The same with prefetching: 3 workers, then 2, then none; the state counts delivered mini-
    batches.
    """
    built = build_pack(SHARDS)
    options: dict[str, Any] = {"shuffle": shuffle, "tail": "keep"}
    stream = stream_of(built, **options)
    stream.set_epoch(1)
    whole = batches_of(stream)
    seen: list[list[str]] = []
    state: dict[str, Any] | None = None
    for workers, taken in ((3, 3), (2, 2), (0, 10)):
        stream = stream_of(built, **options)
        if state is not None:
            stream.load_state_dict(state)
        stream.set_epoch(1)
        running = iter(loader_of(stream, workers))
        got = [list(batch.key) for _, batch in zip(range(taken), running, strict=False)]
        seen += got
        if workers:
            with pytest.raises(UsageError, match=r"state_dict\(step=n\)"):
                stream.state_dict()
        state = through_json(stream.state_dict(step=len(got)))
        del running
    assert seen == whole


def test_a_step_that_cannot_be(build_pack: BuildPack) -> None:
    stream = stream_of(build_pack(SHARDS))
    assert stream.state_dict(step=7)["position"] == 35
    for step in (-1, 8):
        with pytest.raises(UsageError, match=f"step {step} is out of range: 0 to 7 "):
            stream.state_dict(step=step)
    stream.load_state_dict(stream.state_dict(step=5))
    assert stream.state_dict(step=2)["position"] == 35
    with pytest.raises(UsageError, match="since it began, not since the epoch did"):
        stream.state_dict(step=3)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize(
    ("before", "after"), [((2, 5), (3, 2)), ((3, 2), (1, 7)), ((1, 6), (4, 1))]
)
def test_other_ranks_go_on(
    build_pack: BuildPack, shuffle: str, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """What was seen before and after is each sample once; all ranks' states are equal."""
    built = build_pack(SHARDS)
    seen: list[str] = []
    states = []
    for rank in range(before[0]):
        stream = stream_of(
            built, before[1], shuffle=shuffle, tail="keep", rank=rank, world_size=before[0]
        )
        running = iter(stream)
        seen += [key for _ in range(2) for key in next(running).key]
        states.append(stream.state_dict())
    assert all(state == states[0] for state in states)
    for rank in range(after[0]):
        stream = stream_of(
            built, after[1], shuffle=shuffle, tail="keep", rank=rank, world_size=after[0]
        )
        stream.load_state_dict(states[0])
        seen += [key for batch in stream for key in batch.key]
    assert sorted(seen) == sorted(built.keys)


def test_augmentation_goes_on_as_in_the_unbroken_run(build_pack: BuildPack) -> None:
    built = build_pack([[6, 6]], sizes=[(64, 64)])

    def crops(world: int, size: int, state: dict[str, Any] | None, steps: int) -> Any:
        found: dict[str, bytes] = {}
        for rank in range(world):
            dataset = PackedDataset(built.root, transform=RandomResizedCrop(8))
            stream = BatchStream(
                dataset, size, fields=["key", "image"], rank=rank, world_size=world
            )
            if state is not None:
                stream.load_state_dict(state)
            for batch in [batch for _, batch in zip(range(steps), stream, strict=False)]:
                found |= {
                    key: image.numpy().tobytes()
                    for key, image in zip(batch.key, batch.image, strict=True)
                }
        return found, stream.state_dict(step=steps)

    whole, _ = crops(1, 4, None, 3)
    first, state = crops(1, 4, None, 1)
    rest, _ = crops(2, 2, state, 2)
    assert {**first, **rest} == whole


def test_another_pack_seed_shuffle_or_window_is_refused(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    state = stream_of(built).state_dict()
    for options in ({"seed": 1}, {"shuffle": "full"}, {"window": 2}, {"tail": "keep"}):
        with pytest.raises(UsageError, match=next(iter(options))):
            stream_of(built, **options).load_state_dict(state)
    other = build_pack(SHARDS, seed=1, name="other")
    with pytest.raises(UsageError, match=r"pack '\w+' .here"):
        stream_of(other).load_state_dict(state)
    selected = PackedDataset(built.root).select(first=30)
    with pytest.raises(UsageError, match="samples 37"):
        BatchStream(selected, 5, window=3).load_state_dict(state)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_sampler_goes_on_and_shares_states(build_pack: BuildPack, shuffle: Shuffle) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="bytes")

    def sampler_of() -> WindowSampler:
        return WindowSampler(dataset, 5, shuffle=shuffle, window=3)

    sampler = sampler_of()
    sampler.set_epoch(4)
    whole = list(sampler)
    loader: DataLoader[Any] = DataLoader(
        dataset,  # type: ignore[arg-type]
        batch_sampler=sampler,
        num_workers=2,
        multiprocessing_context="fork",
        collate_fn=list,
    )
    sampler.set_epoch(4)
    running = iter(loader)
    for _ in range(2):
        next(running)
    state = through_json(sampler.state_at(2))
    resumed = sampler_of()
    resumed.resume_from(state)
    resumed.set_epoch(4)
    assert list(resumed) == whole[2:]
    resumed.set_epoch(4)
    assert list(resumed) == whole
    stream = stream_of(built, shuffle=shuffle)
    stream.load_state_dict(state)
    assert [dataset.keys[sample] for sample in whole[2]] == batches_of(stream)[0]
    with pytest.raises(UsageError, match="step 9"):
        sampler.state_at(9)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_inside_of_statefuldataloader(
    stateful_loader: Any, build_pack: BuildPack, workers: int, persistent: bool
) -> None:
    """torchdata's own loader, saved anywhere and resumed by itself; and its state on other ranks
    and workers.
    """
    if persistent and not workers:
        return
    built = build_pack(SHARDS)

    def stateful(stream: BatchStream) -> Any:
        more = {"multiprocessing_context": "fork"} if workers else {}
        return stateful_loader(
            stream, batch_size=None, num_workers=workers, persistent_workers=persistent, **more
        )

    stream = stream_of(built)
    stream.set_epoch(1)
    whole = batches_of(stream)
    stream.set_epoch(2)
    following = batches_of(stream)
    for stop in (0, 1, 4, len(whole)):
        stream = stream_of(built)
        stream.set_epoch(1)
        loader = stateful(stream)
        running = iter(loader)
        seen = [list(next(running).key) for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        del running, loader
        stream = stream_of(built)
        stream.set_epoch(1)
        loader = stateful(stream)
        loader.load_state_dict(state)
        assert seen + batches_of(loader) == whole
        stream.set_epoch(2)
        assert batches_of(loader) == following
        del loader
        stream = stream_of(built)
        stream.load_state_dict(state)
        stream.set_epoch(1)
        assert seen + batches_of(loader_of(stream, 2)) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_statefuldataloader_at_an_epochs_end(
    stateful_loader: Any, build_pack: BuildPack, workers: int
) -> None:
    built = build_pack(SHARDS)
    more = {"multiprocessing_context": "fork"} if workers else {}
    stream = stream_of(built)
    loader = stateful_loader(stream, batch_size=None, num_workers=workers, **more)
    assert len(batches_of(loader)) == 7
    state = loader.state_dict()
    stream = stream_of(built)
    stream.set_epoch(1)
    expected = batches_of(stream)
    loader = stateful_loader(stream, batch_size=None, num_workers=workers, **more)
    loader.load_state_dict(state)
    stream.set_epoch(1)
    assert batches_of(loader) == expected
