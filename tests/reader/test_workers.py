"""The reader in DataLoader's worker processes: real ones, few and small."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Subset,
    WeightedRandomSampler,
)

from packer.errors import DamageError
from packer.pack.shards import ShardFiles
from packer.reader import BatchStream, PackedDataset, WindowSampler
from tests.packs import BuildPack, FakePack

pytestmark = [
    pytest.mark.slow,
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 0, 4], [3], [4, 4, 4]]
Epoch = list[tuple[list[str], bytes, list[int]]]


def epoch_of(batches: Any) -> Epoch:
    """An epoch of (key, image, label) mini-batches, byte for byte."""
    return [
        (list(keys), images.numpy().tobytes(), labels.tolist()) for keys, images, labels in batches
    ]


def loader_of(stream: BatchStream, workers: int, context: str = "fork", **more: Any) -> Any:
    more |= {"multiprocessing_context": context} if workers else {}
    return DataLoader(stream, batch_size=None, num_workers=workers, **more)


def stream_of(built: Any, batch_size: int = 4, **options: Any) -> BatchStream:
    dataset = PackedDataset(built.root, **options.pop("dataset", {}))
    return BatchStream(dataset, batch_size, fields=("key", "image", "label"), **options)


def test_every_number_of_workers_gives_the_same_bytes(
    build_pack: BuildPack, format_name: str
) -> None:
    """Workers that share a handle read wrong data, or each gives every sample: forked after the
    parent has read, three epochs, workers 0, 1, 2, 5.
    """
    built = build_pack(SHARDS, format_name)
    stream = stream_of(built, tail="keep", window=2)
    for epoch, workers in ((0, 1), (1, 2), (2, 5)):
        stream.set_epoch(epoch)
        expected = epoch_of(stream)
        assert sorted(key for keys, _, _ in expected for key in keys) == sorted(built.keys)
        loader = loader_of(stream, workers)
        assert len(loader) == len(expected)
        stream.set_epoch(epoch)
        assert epoch_of(loader) == expected


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_set_epoch_reaches_persistent_workers(build_pack: BuildPack, context: str) -> None:
    """set_epoch was ignored by persistent workers, and data sets did not pickle: any start method,
    after the parent has read, must keep the order of no workers.
    """
    stream = stream_of(build_pack(SHARDS), window=2, seed=4)
    loader = loader_of(stream, 2, context, persistent_workers=True)
    seen = []
    for epoch in (0, 1, 2, 3, 1):
        stream.set_epoch(epoch)
        seen.append(epoch_of(loader))
        stream.set_epoch(epoch)
        assert seen[-1] == epoch_of(stream)
    assert len({str(epoch) for epoch in seen}) == 4


def test_the_sampler_gives_the_same_in_a_dataloader(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="numpy")
    sampler = WindowSampler(dataset, 4, window=2)
    loader: DataLoader[Any] = DataLoader(
        dataset,  # type: ignore[arg-type]  # map-style by its methods, not by its base class
        batch_sampler=sampler,
        num_workers=2,
        multiprocessing_context="fork",
    )
    for epoch in range(2):
        sampler.set_epoch(epoch)
        found = [(images.numpy(), labels.tolist()) for images, labels in loader]
        sampler.set_epoch(epoch)
        for (images, labels), samples in zip(found, sampler, strict=True):
            assert labels == [built.labels[sample] for sample in samples]
            assert np.array_equal(images, [built.pixels[sample] for sample in samples])


def test_subsets_and_torchs_own_samplers(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever chooses the samples, a mini-batch is read in few reads: one a shard here."""
    built = build_pack(SHARDS)
    dataset: Any = PackedDataset(built.root, decode="numpy")
    reads = []
    real = ShardFiles.read

    def read(self: ShardFiles, shard: int, offset: int, size: int) -> memoryview:
        reads.append(shard)
        return real(self, shard, offset, size)

    monkeypatch.setattr(ShardFiles, "read", read)
    weights = (dataset.targets == 2).astype(float)
    balanced = 1 / np.bincount(dataset.targets)[dataset.targets]
    samplers: dict[str, Any] = {
        "random": RandomSampler(dataset),
        "one class": WeightedRandomSampler(weights, 12),
        "balanced": WeightedRandomSampler(balanced, 12),
        "distributed": DistributedSampler(dataset, num_replicas=2, rank=1, shuffle=False),
    }
    seen = {}
    for name, sampler in samplers.items():
        reads.clear()
        batches = list(DataLoader(dataset, batch_size=6, sampler=sampler))
        assert len(reads) <= 3 * len(batches)
        seen[name] = [int(label) for _, labels in batches for label in labels]
    assert sorted(seen["random"]) == sorted(built.labels)
    assert seen["one class"] == [2] * 12
    assert len(seen["balanced"]) == 12
    assert seen["distributed"] == [*built.labels[1::2], built.labels[0]]  # padded: 23 are uneven
    reads.clear()
    part: Any = Subset(dataset, [5, 2, 19, 0])
    labels = [int(label) for _, some in DataLoader(part, batch_size=4) for label in some]
    assert labels == [built.labels[sample] for sample in (5, 2, 19, 0)]
    assert len(reads) == 2


def test_concatenated_by_torch(build_pack: BuildPack) -> None:
    built = [build_pack(SHARDS, name=name, seed=seed) for name, seed in (("a", 0), ("b", 50))]
    datasets: list[Any] = [PackedDataset(pack.root, decode="numpy") for pack in built]
    both: Any = ConcatDataset(datasets)
    assert len(both) == 46
    images = [image for images, _ in DataLoader(both, batch_size=10) for image in images]
    assert np.array_equal(images[25], built[1].pixels[2])


def pad(batch: Any) -> Any:
    """A user's own collate: pictures of several sizes in one tensor, black where there is none."""
    images, labels = batch
    height, width = (max(image.shape[side] for image in images) for side in (1, 2))
    padded = torch.zeros(len(images), 3, height, width, dtype=torch.uint8)
    for place, image in zip(padded, images, strict=True):
        place[:, : image.shape[1], : image.shape[2]] = image
    return padded, labels


def test_a_collate_of_ones_own(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS, sizes=[(8, 6), (5, 7)])
    stream = BatchStream(PackedDataset(built.root), 4, shuffle="none")
    loader: Any = DataLoader(stream, batch_size=None, num_workers=2, collate_fn=pad)
    images, labels = next(iter(loader))
    assert (tuple(images.shape), labels.tolist()) == ((4, 3, 7, 8), built.labels[:4])
    assert np.array_equal(images[1, :, :, :5].permute(1, 2, 0), built.pixels[1])
    assert not images[1, :, :, 5:].any()


class Noise:
    """Draws from every generator there is, one of them its own, made where it is made."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __call__(self, image: Any) -> torch.Tensor:
        drawn = (
            self.generator.random(), np.random.random(), random.random(), torch.rand(()).item()
        )  # fmt: skip
        return torch.tensor(drawn, dtype=torch.float64)


def noise_of(build_pack: BuildPack, name: str, **options: Any) -> list[list[float]]:
    built = build_pack([[4, 4]], name=name)
    found = []
    for rank in range(2):
        torch.manual_seed(0)  # as training scripts do, on every rank
        stream = stream_of(
            built, 1, dataset={"transform": Noise()}, rank=rank, world_size=2, **options
        )
        for _, images, _ in loader_of(stream, 4):
            found.append(images[0].tolist())
    return found


def test_no_two_workers_draw_the_same_numbers(build_pack: BuildPack) -> None:
    """4 workers, 2 ranks draw different numbers; the same seed gives the same numbers again."""
    found = noise_of(build_pack, "first")
    assert len(found) == 8
    for column in zip(*found, strict=True):
        assert len(set(column)) == 8
    assert noise_of(build_pack, "second") == found


THREADS = """
import os, sys
import cv2, numpy as np
from torch.utils.data import DataLoader
from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import Resize

def threads(label):
    return len(os.listdir("/proc/self/task"))

if __name__ == "__main__":
    # What numpy's and OpenCV's BLAS start when they are imported; a forked child has none of it.
    imported = threads(0)
    if sys.argv[2] == "fork":
        imported = 1
        cv2.setNumThreads(4)
        large = np.zeros((2000, 2000, 3), np.uint8)
        cv2.resize(large, (700, 700), interpolation=cv2.INTER_AREA)
    dataset = PackedDataset(sys.argv[1], transform=Resize(500), target_transform=threads)
    loader = DataLoader(
        BatchStream(dataset, 1), batch_size=None, num_workers=2, timeout=60,
        multiprocessing_context=sys.argv[2],
    )
    print(max(int(labels[0]) for _, labels in loader) - imported)
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_neither_hang_nor_multiply_threads(
    build_pack: BuildPack, tmp_path: Path, context: str
) -> None:
    """OpenCV's threads in the parent hung or multiplied in the workers: used before the fork, and
    first loaded in the worker.
    """
    built = build_pack([[2, 2]], sizes=[(900, 900)])
    script = tmp_path / "train.py"
    script.write_text(THREADS)
    done = subprocess.run(
        [sys.executable, script, built.root, context],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    # Those with which multiprocessing sends the mini-batches and torch their memory.
    assert int(done.stdout) <= 2


class Memory:
    """Anonymous memory of this process in KiB, every so many labels, in place of a label."""

    EVERY = 10_000

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, label: int) -> int:
        self.calls += 1
        if self.calls % self.EVERY:
            return 0
        for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1])
        raise AssertionError("no Anonymous in smaps_rollup")


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs smaps_rollup")
def test_memory_does_not_grow_with_the_samples(fake_pack: FakePack) -> None:
    """Lists copied on reference make memory grow with workers: nothing per sample is copied or
    kept, index pages are shared.
    """
    dataset = PackedDataset(fake_pack(200_000, 100), decode="bytes", target_transform=Memory())
    index_bytes = dataset.pack.record.index_bytes
    loader = loader_of(BatchStream(dataset, 1000), 2)
    seen: list[list[int]] = [[], []]
    for step, (_, labels) in enumerate(loader):
        seen[step % 2] += [value for value in labels.tolist() if value]
    for values in seen:
        assert len(values) == 10
        assert (values[-1] - values[0]) * 1024 < 0.1 * index_bytes


def test_damage_in_a_worker_reaches_the_training_loop(build_pack: BuildPack) -> None:
    built = build_pack([[4, 4]], sizes=[(64, 40)])
    stream = stream_of(built)
    place = int(stream.dataset.pack.index["image.offset"][3]) + 5000
    with built.shard(0).open("r+b") as file:
        file.seek(place)
        file.write(b"\1\2\3\4")
    with pytest.raises(DamageError, match=r"batch 0, .*class3/3\.v1\.jpg"):
        list(loader_of(stream, 1))
