"""Ranks that come up after a stream was made: real process groups."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.utils.data import DataLoader

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from tests.packs import BuildPack

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        not dist.is_available() or not dist.is_gloo_available(),
        reason="needs torch.distributed with gloo",
    ),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

#: Seconds after which a rank hangs.
LIMIT = 100


@contextlib.contextmanager
def group(folder: Path, rank: int, world_size: int) -> Iterator[None]:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group-{world_size}", rank=rank, world_size=world_size
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def run(rank: int, world_size: int, folder: Path, results: Any, work: Callable[[int], Any]) -> None:
    with group(folder, rank, world_size):
        results.put((rank, work(rank)))


def on_ranks(
    folder: Path, work: Callable[[int], Any], world_size: int = 2, context: str = "fork"
) -> list[Any]:
    """What `work(rank)` returns on each rank of a new process group, in new processes."""
    processes: Any = multiprocessing.get_context(context)
    results = processes.Queue()
    ranks = [
        processes.Process(target=run, args=(rank, world_size, folder, results, work))
        for rank in range(world_size)
    ]
    for process in ranks:
        process.start()
    found = dict(results.get(timeout=LIMIT) for _ in ranks)
    for process in ranks:
        process.join(LIMIT)
        assert process.exitcode == 0
    return [found[rank] for rank in range(world_size)]


def keys_of(batches: Any) -> list[str]:
    return [key for batch in batches for key in batch.key]


def stream_of(root: Path, batch_size: int = 2, **options: Any) -> BatchStream:
    dataset = PackedDataset(root, decode="bytes")
    return BatchStream(dataset, batch_size, **{"fields": ["key"], "window": 2, **options})


def assert_divided(parts: list[list[str]], keys: list[str]) -> None:
    assert sorted(key for part in parts for key in part) == sorted(keys)
    assert all(len(part) == len(keys) // len(parts) for part in parts)


def test_made_before_the_group(build_pack: BuildPack, tmp_path: Path) -> None:
    """And iterated over before it, with workers and without."""
    built = build_pack([[4, 4], [8]])
    dataset: Any = PackedDataset(built.root, decode="bytes")
    made: dict[str, Any] = {
        "stream": stream_of(built.root),
        "loader": Loader(built.root, batch_size=2, threads=1, fields=["key"]),
        "process": Loader(
            built.root, batch_size=2, threads=1, fields=["key"], process="fork", seed=1
        ),
        "mixed": MixedStream([stream_of(built.root), stream_of(built.root, seed=1)]),
    }
    sampler = WindowSampler(dataset, 2)
    whole = {name: keys_of(stream) for name, stream in made.items()}
    assert len(whole["stream"]) == len(sampler) * 2 == 16
    made["loader"].close()
    made["process"].close()

    def work(rank: int) -> dict[str, Any]:
        seen = {name: keys_of(stream) for name, stream in made.items()}
        workers: Any = DataLoader(made["stream"], batch_size=None, num_workers=2)
        seen["workers"] = keys_of(workers)
        seen["sampler"] = [dataset.keys[sample] for samples in sampler for sample in samples]
        lengths = [len(stream) for stream in (*made.values(), sampler, workers)]
        made["process"].close()
        return {"seen": seen, "lengths": lengths, "epoch": made["stream"].epoch}

    first, second = on_ranks(tmp_path, work)
    for name in first["seen"]:
        assert_divided(
            [first["seen"][name], second["seen"][name]], built.keys * (1 + (name == "mixed"))
        )
    assert first["lengths"] == second["lengths"] == [4, 4, 4, 8, 4, 4]
    assert first["epoch"] == second["epoch"] == 3


class ReadsWithWorkersFirst:
    """A function that can be pickled, with a stream."""

    def __init__(self, stream: BatchStream) -> None:
        self.stream = stream

    def __call__(self, rank: int) -> list[list[str]]:
        workers: Any = DataLoader(self.stream, batch_size=None, num_workers=2)
        return [keys_of(workers), keys_of(self.stream)]


def test_pickled_before_the_group(build_pack: BuildPack, tmp_path: Path) -> None:
    """To ranks that are no forks of this process; their workers begin before the ranks loop."""
    built = build_pack([[4, 4], [8]])
    stream = stream_of(built.root)
    expected = [keys_of(stream), keys_of(stream)]
    stream.set_epoch(0)
    found = on_ranks(tmp_path, ReadsWithWorkersFirst(stream), context="forkserver")
    for epoch in range(2):
        assert_divided([rank[epoch] for rank in found], built.keys)
        assert set(found[0][epoch]) != set(expected[epoch])
    assert stream.epoch == 0


def test_a_state_keeps_its_position_in_another_world(build_pack: BuildPack, tmp_path: Path) -> None:
    built = build_pack([[4, 4], [8]])
    stream = stream_of(built.root)
    whole = [keys_of(stream), keys_of(stream)]
    stream.load_state_dict({**stream.state_dict(), "epoch": 0, "position": 8})

    def work(rank: int) -> Any:
        state = stream.state_dict()
        return [(state["epoch"], state["position"]), keys_of(stream), keys_of(stream)]

    found = on_ranks(tmp_path, work)
    assert [rank[0] for rank in found] == [(0, 8), (0, 8)]
    assert sorted(found[0][1] + found[1][1]) == sorted(whole[0][8:])
    assert sorted(found[0][2] + found[1][2]) == sorted(whole[1])
    stream.load_state_dict({**stream.state_dict(), "epoch": 0, "position": 14})
    assert stream.epoch == 0
    # A global mini-batch of 4 has no room in the 2 samples that are left.
    later = tmp_path / "later"  # each group needs a file of its own
    later.mkdir()
    assert on_ranks(later, lambda rank: stream.epoch) == [1, 1]


def test_ranks_by_hand(build_pack: BuildPack, tmp_path: Path) -> None:
    built = build_pack([[4, 4], [8]])

    def work(rank: int) -> list[str]:
        said = []
        for given in ((rank, 4), (1 - rank % 2, 2), (0, 3), (0, 1)):
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    stream = stream_of(built.root, rank=given[0], world_size=given[1])
                    counts = [len(keys_of(stream)) for _ in range(2)]
                said.append(f"{counts} {[str(warning.message) for warning in caught]}")
            except UsageError as error:
                said.append(str(error))
        return said

    for rank, said in enumerate(on_ranks(tmp_path, work, 4)):
        assert said[0] == "[4, 4] []"
        assert said[1] == "[8, 8] []"  # two processes read alike, as in tensor-parallel groups
        assert (
            f"rank=0, world_size=3 was given, but in torch.distributed this process is rank "
            f"{rank} of 4 (leave out rank and world_size" in said[2]
        )
        assert said[3].startswith("[16, 16] [")
        assert said[3].count("each of the 4 processes of torch.distributed reads all 16") == 1


def test_another_rank_than_that_of_the_group(build_pack: BuildPack, tmp_path: Path) -> None:
    """Also where the group has come up since; for samplers, len and states, too."""
    built = build_pack([[4, 4]])
    stream = stream_of(built.root, rank=1, world_size=2)
    sampler = WindowSampler(PackedDataset(built.root), 2, rank=1, world_size=2)
    calls: list[Callable[[], Any]] = [
        lambda: next(iter(stream)),
        lambda: len(stream),
        stream.state_dict,
        lambda: next(iter(sampler)),
        lambda: len(sampler),
    ]

    def work(rank: int) -> int:
        refused = 0
        for call in calls:
            with contextlib.suppress(UsageError):
                call()
                continue
            refused += 1
        return refused

    assert on_ranks(tmp_path, work) == [len(calls), 0]


class Draws:
    """A transform with a generator of its own."""

    def __init__(self) -> None:
        self.generator = random.Random(0)

    def __call__(self, image: Any) -> float:
        return self.generator.random()


def test_random_streams_of_a_data_set_that_was_read_before_the_group(
    build_pack: BuildPack, tmp_path: Path
) -> None:
    dataset = PackedDataset(build_pack([[4, 4]]).root, transform=Draws())
    assert dataset[0][0] == random.Random(0).random()
    first, second = on_ranks(tmp_path, lambda rank: [dataset[sample][0] for sample in range(4)])
    assert not set(first) & set(second)
    assert first == [dataset[sample][0] for sample in range(4)]


def test_an_environment_with_ranks(build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(build_pack([[4, 4]]).root)
    assert len(stream) == 4
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (len(stream), stream.schedule.options.rank) == (2, 1)
