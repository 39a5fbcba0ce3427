from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from packer.errors import DamagedSample, UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset
from packer.reader.images.decoding import Decode
from packer.reader.transforms import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop
from packer.types import Array
from tests.packs import BuildPack

SHARDS = [[4, 0, 4], [3], [4]]
#: Pictures whose middle lies in the middle of a shard; see tests/reader/batches/test_skipping.py.
LARGE = [(96, 64)]
FIELDS = ("key", "image", "note", "label")
RANDOM = [RandomResizedCrop(5), RandomHorizontalFlip(), Normalize((0.5, 0.4, 0.3), (1, 2, 3))]


def same(left: Any, right: Any) -> bool:
    """Whether two mini-batches are equal in values, types and memory layout."""
    if isinstance(left, torch.Tensor):
        return (
            torch.equal(left, right)
            and left.dtype == right.dtype
            and left.stride() == right.stride()
        )
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def assert_same(loader: Any, stream: Any) -> None:
    left, right = list(loader), list(stream)
    assert len(left) == len(right) > 0
    for one, other in zip(left, right, strict=True):
        assert type(one) is type(other)
        assert same(one, other)


@pytest.mark.parametrize("shuffle", ["none", "batch", "window", "full"])
@pytest.mark.parametrize("transform", [None, RANDOM, [CenterCrop(4)]])
def test_the_same_mini_batches_as_a_batch_stream(
    build_pack: BuildPack, format_name: str, shuffle: str, transform: Any
) -> None:
    built = build_pack(SHARDS, format_name, "jpeg", extra=True)
    options: dict[str, Any] = {"shuffle": shuffle, "window": 2, "tail": "keep", "fields": FIELDS}
    loader = Loader(built.root, batch_size=3, transform=transform, threads=2, seed=5, **options)
    dataset = PackedDataset(built.root, transform=transform, decode="numpy")
    stream = BatchStream(dataset, 3, seed=5, **options)
    assert len(loader) == len(stream)
    for epoch in (0, 1, 4):
        loader.set_epoch(epoch)
        stream.set_epoch(epoch)
        assert loader.epoch == epoch
        assert_same(loader, stream)


@pytest.mark.parametrize("tail", ["drop", "pad", "keep"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_ranks(build_pack: BuildPack, tail: str, rank: int) -> None:
    built = build_pack(SHARDS)
    options: dict[str, Any] = {"tail": tail, "rank": rank, "world_size": 3, "window": 2}
    loader = Loader(built.root, batch_size=2, threads=3, **options)
    assert_same(loader, BatchStream(PackedDataset(built.root, decode="numpy"), 2, **options))


@pytest.mark.parametrize("decode", ["pil", "numpy", "bytes"])
def test_pictures_of_several_sizes_and_undecoded_ones(
    build_pack: BuildPack, decode: Decode
) -> None:
    built = build_pack(SHARDS, sizes=[(8, 6), (5, 7)])
    dataset = PackedDataset(built.root, decode=decode)
    assert_same(Loader(dataset, batch_size=4, as_dict=True), BatchStream(dataset, 4, as_dict=True))


def to_tensor(pixels: Array) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


@pytest.mark.parametrize("transform", [to_tensor, [RandomResizedCrop(4), to_tensor], [np.mean]])
def test_transforms_of_the_users_own(build_pack: BuildPack, transform: Any) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(
        built.root, transform=transform, target_transform=lambda label: label / 2, decode="numpy"
    )
    assert_same(Loader(dataset, batch_size=4, threads=2), BatchStream(dataset, 4))


def test_without_pictures(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack(SHARDS).root)
    assert_same(
        Loader(dataset, batch_size=4, fields=["label", "key"]),
        BatchStream(dataset, 4, fields=["label", "key"]),
    )


def test_selections_and_mixed_packs(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[8, 8], [8]]).root, decode="numpy")
    few, rest = dataset.select(first=10), dataset.select(samples=np.arange(10, 24))
    loaders = [Loader(part, batch_size=2, threads=2) for part in (few, rest)]
    streams = [BatchStream(part, 2) for part in (few, rest)]
    mixed = [MixedStream(parts, weights=[1, 2]) for parts in (loaders, streams)]
    for epoch in range(3):
        for stream in mixed:
            stream.set_epoch(epoch)
        assert_same(*mixed)


@pytest.mark.parametrize("transform", [[CenterCrop((4, 6))], RANDOM])
def test_the_other_memory_format(build_pack: BuildPack, transform: Any) -> None:
    built = build_pack(SHARDS)
    loader = Loader(
        built.root, batch_size=4, transform=transform, memory_format=torch.contiguous_format
    )
    stream = BatchStream(PackedDataset(built.root, transform=transform, decode="numpy"), 4)
    for (images, labels), (expected, same_labels) in zip(loader, stream, strict=True):
        assert images.is_contiguous()
        assert torch.equal(images, expected)
        assert torch.equal(labels, same_labels)


def test_everything_that_was_handed_out_stays_as_it_was(build_pack: BuildPack) -> None:
    """Also with other loaders about, and mini-batches dropped in between."""
    built = build_pack([[8] * 8])
    loader = Loader(built.root, batch_size=2, threads=2, fields=("key", "image"))
    held = []
    for epoch in range(4):
        loader.set_epoch(epoch)
        for number, (keys, images) in enumerate(loader):
            if number % 3 == epoch % 3:
                held.append((keys[1], images[1]))
    for key, image in held:
        pixels = built.pixels[built.keys.index(key)]
        assert np.array_equal(image.permute(1, 2, 0), pixels)


def test_state_counts_what_was_handed_out(build_pack: BuildPack) -> None:
    """A state after each mini-batch, gone on with in a loader, with other mini-batches and in a
    stream.
    """
    built = build_pack(SHARDS)
    options: dict[str, Any] = {"window": 2, "fields": ["key"], "tail": "keep"}
    dataset = PackedDataset(built.root, decode="numpy")
    loader = Loader(dataset, batch_size=2, ahead=4, **options)
    loader.set_epoch(3)
    whole = [key for (keys,) in loader for key in keys]
    loader.set_epoch(3)
    seen: list[str] = []
    for (keys,) in loader:
        seen += keys
        state = loader.state_dict()
        assert state == loader.state_dict(step=len(seen) // 2 + len(seen) % 2)
        others: list[BatchStream] = [
            Loader(dataset, batch_size=2, **options),
            BatchStream(dataset, 2, **options),
        ]
        others.append(Loader(dataset, batch_size=5, **options))
        for other in others:
            other.load_state_dict(state)
            if len(seen) == 15:
                assert other.epoch == 4
                continue
            assert other.epoch == 3
            rest = [key for (keys,) in other for key in keys]
            if other.schedule.stride != 2:  # the order within a mini-batch is its own
                rest, expected = sorted(rest), sorted(whole[len(seen) :])
            else:
                expected = whole[len(seen) :]
            assert rest == expected
    assert loader.state_dict()["epoch"] == 4


def test_damaged_samples_are_gone_around(build_pack: BuildPack) -> None:
    """As BatchStream does it, in its order."""
    built = build_pack([[4, 4], [4]], sizes=LARGE)
    _damage(built, 1, 2, 7)
    options: dict[str, Any] = {"window": 2, "fields": ("key", "label", "image")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            dataset = PackedDataset(built.root, decode="numpy", on_error="skip")
            loader = Loader(built.root, batch_size=3, on_error="skip", threads=2, **options)
            assert_same(loader, BatchStream(dataset, 3, **options))
            assert loader.skipped == dataset.skipped
            assert [entry.sample for entry in loader.skipped] == [1, 2, 7]


def _damage(built: Any, *samples: int) -> None:
    index = PackedDataset(built.root).pack.index
    for sample in samples:
        shard = built.shard(int(sample >= 8))
        data = bytearray(shard.read_bytes())
        data[int(index["image.offset"][sample] + index["image.size"][sample] // 2)] ^= 0xFF
        shard.write_bytes(data)


def test_what_cannot_be_decoded_is_gone_around_or_raised(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are as they were written, so a decode thread finds it."""
    from packer.reader.images.decoding import Decoder

    built = build_pack([[8, 8]])
    real = Decoder.write

    def write(self: Any, payload: Any, sample: int, draws: Any, out: Any) -> None:
        real(self, payload[:-1] if sample in (3, 4) else payload, sample, draws, out)

    monkeypatch.setattr(Decoder, "write", write)
    monkeypatch.setattr(Decoder, "write_all", lambda self, payloads, *_: range(len(payloads)))
    loader = Loader(
        built.root,
        batch_size=8,
        shuffle="none",
        on_error="skip",
        threads=3,
        fields=("key", "image"),
    )
    with pytest.warns(UserWarning, match="skipped"):
        keys, images = next(iter(loader))
    expected = [0, 1, 2, 5, 5, 5, 6, 7]
    assert keys == [built.keys[number] for number in expected]
    for image, number in zip(images, expected, strict=True):
        assert np.array_equal(image.permute(1, 2, 0), built.pixels[number])
    loader = Loader(built.root, batch_size=4, shuffle="none", threads=2)
    with pytest.raises(DamagedSample, match=r"class3/3\.v1\.jpg") as caught:
        list(loader)
    assert caught.value.sample == 3
    assert loader.state_dict()["position"] == 0


def test_damage_is_an_error_that_says_which(build_pack: BuildPack) -> None:
    built = build_pack([[4, 4], [4]], sizes=LARGE)
    _damage(built, 5)
    loader = Loader(built.root, batch_size=4, shuffle="none")
    loop = iter(loader)
    next(loop)
    with pytest.raises(DamagedSample, match=r"batch 1, .*class0/5\.v1\.jpg") as caught:
        next(loop)
    assert caught.value.sample == 5
    with pytest.raises(StopIteration):
        next(loop)


def test_copies_and_pickles(build_pack: BuildPack) -> None:
    """Spawned ranks get their loader that way."""
    built = build_pack(SHARDS)
    loader = Loader(built.root, batch_size=4, fields=("key", "image"))
    expected = list(loader)
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        other.set_epoch(0)
        assert_same(other, expected)


def test_arguments_that_cannot_be(build_pack: BuildPack) -> None:
    built = build_pack([[4]])
    for options in (
        {"threads": 0},
        {"ahead": 0},
        {"memory_format": torch.preserve_format},
        {"fields": ["imagee"]},
        {"batch_size": 0},
        {"device": "gpu"},
    ):
        with pytest.raises(UsageError):
            Loader(built.root, **{"batch_size": 2, **options})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="transform, on_error given beside a data set"):
        Loader(PackedDataset(built.root), batch_size=2, transform=[], on_error="skip")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_on_a_device(build_pack: BuildPack, device: str) -> None:
    loader = Loader(build_pack([[4, 4]]).root, batch_size=4, device=device)
    assert [images.device.type for images, _ in loader] == [device] * 2
    assert [labels.device.type for _, labels in loader] == [device] * 2


@pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")
def test_inside_of_a_data_loader(build_pack: BuildPack) -> None:
    """Not what it is made for, but a stream it is."""
    built = build_pack(SHARDS)
    loader = Loader(built.root, batch_size=2, fields=("key", "image"))
    expected = list(loader)
    for workers in (0, 2):
        loader.set_epoch(0)
        assert_same(DataLoader(loader, batch_size=None, num_workers=workers), expected)
