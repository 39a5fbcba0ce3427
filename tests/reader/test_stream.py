from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from packer.errors import DamageError, UsageError
from packer.reader import BatchStream, PackedDataset
from packer.reader.images.decoding import Decode
from packer.reader.order.options import Shuffle, Tail
from packer.reader.transforms import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop
from packer.types import Array
from tests.packs import BuildPack

SHARDS = [[4, 0, 4], [3], [4]]


def stream_of(
    build_pack: BuildPack,
    batch_size: int = 4,
    *,
    dataset: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Any, BatchStream]:
    built = build_pack(SHARDS, sizes=options.pop("sizes", [(8, 6)]))
    return built, BatchStream(PackedDataset(built.root, **(dataset or {})), batch_size, **options)


def seen_keys(stream: BatchStream) -> list[str]:
    return [key for (keys,) in stream for key in keys]


@pytest.mark.parametrize("shuffle", ["none", "batch", "window", "full"])
@pytest.mark.parametrize("decode", ["pil", "numpy"])
def test_pictures_labels_and_keys_belong_together(
    build_pack: BuildPack, format_name: str, shuffle: Shuffle, decode: Decode
) -> None:
    """Keys sorted as text gave pictures other labels; here all fields belong together, in every
    format.
    """
    built = build_pack(SHARDS, format_name, extra=True)
    dataset = PackedDataset(built.root, decode=decode)
    fields = ("key", "image", "note", "label")
    stream = BatchStream(dataset, 4, shuffle=shuffle, tail="keep", fields=fields)
    seen = []
    for keys, images, notes, labels in stream:
        assert (images.dtype, tuple(images.shape[1:])) == (torch.uint8, (3, 6, 8))
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert labels.dtype == torch.int64
        for place, key in enumerate(keys):
            sample = built.keys.index(key)
            seen.append(sample)
            pixels = images[place].permute(1, 2, 0).numpy()
            assert np.array_equal(pixels, built.pixels[sample])
            assert labels[place] == built.labels[sample]
            assert notes[place] == built.samples[sample].payloads.get("note")
    assert sorted(seen) == list(range(15))
    assert (seen == list(range(15))) == (shuffle == "none")


def test_pictures_of_several_sizes_come_as_a_list(build_pack: BuildPack) -> None:
    built, stream = stream_of(build_pack, shuffle="none", sizes=[(8, 6), (5, 7)])
    images, _ = next(iter(stream))
    assert [tuple(image.shape) for image in images] == [(3, 6, 8), (3, 7, 5)] * 2
    assert np.array_equal(images[1].permute(1, 2, 0), built.pixels[1])


def test_bytes_come_as_a_list(build_pack: BuildPack) -> None:
    built, stream = stream_of(build_pack, shuffle="none", dataset={"decode": "bytes"})
    images, _ = next(iter(stream))
    assert images == [sample.payloads["image"] for sample in built.samples[:4]]


def test_transforms_get_what_decode_says(build_pack: BuildPack) -> None:
    kinds = []

    def note(image: Any) -> Any:
        kinds.append(type(image))
        return image

    decodes: tuple[Decode, ...] = ("pil", "numpy")
    for decode in decodes:
        built = build_pack([[4]], name=decode)
        dataset = PackedDataset(built.root, decode=decode, transform=note)
        images, _ = next(iter(BatchStream(dataset, 2, shuffle="none")))
        assert np.array_equal(images[1].permute(1, 2, 0), built.pixels[1])
    assert kinds == [Image.Image] * 2 + [np.ndarray] * 2


def test_tensors_of_transforms_are_stacked(build_pack: BuildPack) -> None:
    def to_tensor(pixels: Array) -> torch.Tensor:
        return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255

    dataset = {
        "decode": "numpy",
        "transform": to_tensor,
        "target_transform": lambda label: label / 2,
    }
    built, stream = stream_of(build_pack, shuffle="none", dataset=dataset)
    images, labels = next(iter(stream))
    assert images.dtype == torch.float32
    assert torch.equal(images[2], to_tensor(built.pixels[2]))
    assert labels.tolist() == [label / 2 for label in built.labels[:4]]


def test_built_in_transforms_and_floats(build_pack: BuildPack) -> None:
    transform = [CenterCrop((4, 6)), RandomHorizontalFlip(1.0), Normalize((0, 0, 0), (1, 1, 1))]
    built, stream = stream_of(build_pack, shuffle="none", dataset={"transform": transform})
    images, _ = next(iter(stream))
    assert (images.dtype, tuple(images.shape)) == (torch.float32, (4, 3, 4, 6))
    expected = built.pixels[3][1:5, 1:7][:, ::-1] / 255
    assert np.allclose(images[3].permute(1, 2, 0), expected, atol=1e-6)


def test_as_dicts(build_pack: BuildPack) -> None:
    built, stream = stream_of(build_pack, shuffle="none", fields=("label", "image"), as_dict=True)
    batch = next(iter(stream))
    assert list(batch) == ["label", "image"]
    assert batch["label"].tolist() == built.labels[:4]
    assert tuple(batch["image"].shape) == (4, 3, 6, 8)


def test_mini_batches_at_any_places(build_pack: BuildPack) -> None:
    _, stream = stream_of(build_pack, 3, window=2, fields=["key"])
    epochs = []
    for epoch in range(3):
        stream.set_epoch(epoch)
        epochs.append(list(stream))
    places = [(0, 1), (0, 4), (2, 0), (2, 3), (1, 2)]
    assert list(stream.mini_batches(places)) == [epochs[epoch][step] for epoch, step in places]


def test_random_crops_depend_on_seed_epoch_and_sample_alone(build_pack: BuildPack) -> None:
    """So the same augmentation for any number of ranks, and after any interruption."""
    built = build_pack([[6, 6]], sizes=[(64, 64)])

    def crops(batch_size: int, world_size: int, seed: int, epoch: int) -> dict[str, bytes]:
        found = {}
        for rank in range(world_size):
            dataset = PackedDataset(built.root, transform=RandomResizedCrop(8))
            stream = BatchStream(
                dataset, batch_size, seed=seed, rank=rank, world_size=world_size,
                fields=("key", "image"),
            )  # fmt: skip
            stream.set_epoch(epoch)
            for keys, images in stream:
                for key, image in zip(keys, images, strict=True):
                    found[key] = image.numpy().tobytes()
        assert len(found) == 12
        return found

    assert crops(6, 1, 0, 0) == crops(2, 3, 0, 0)
    assert crops(6, 1, 0, 0) != crops(6, 1, 0, 1)
    assert crops(6, 1, 0, 0) != crops(6, 1, 1, 0)


def test_lengths_and_tails(build_pack: BuildPack) -> None:
    """15 samples: no tail may count a sample twice, and `len` must be exact."""
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root, decode="bytes")
    cases: list[tuple[Tail, int, list[int]]] = [
        ("drop", 1, [3]), ("pad", 1, [4]), ("keep", 1, [4]),
        ("drop", 2, [1, 1]), ("pad", 2, [2, 2]), ("keep", 3, [2, 1, 1]),
    ]  # fmt: skip
    for tail, world, lengths in cases:
        streams = [
            BatchStream(dataset, 4, tail=tail, rank=rank, world_size=world, fields=["key"])
            for rank in range(world)
        ]
        assert [len(stream) for stream in streams] == lengths
        keys = [seen_keys(stream) for stream in streams]
        assert [len(list(stream)) for stream in streams] == lengths
        together = [key for some in keys for key in some]
        if tail == "keep":
            assert sorted(together) == sorted(built.keys)
        elif tail == "pad":
            assert set(together) == set(built.keys)
            assert len(together) == 16
        else:
            assert len(set(together)) == len(together) == 4 * world * lengths[0]


def test_set_epoch_and_pickling(build_pack: BuildPack) -> None:
    _, stream = stream_of(build_pack, fields=["key"])
    first = seen_keys(stream)
    stream.set_epoch(3)
    assert stream.epoch == 3
    third = seen_keys(stream)
    assert third != first
    assert stream.epoch == 4
    fourth = seen_keys(pickle.loads(pickle.dumps(stream)))
    assert fourth not in (first, third)
    assert seen_keys(stream) == fourth  # the copy has gone on by itself
    stream.set_epoch(0)
    assert seen_keys(stream) == first


def test_an_epoch_that_runs_is_not_changed(build_pack: BuildPack) -> None:
    _, stream = stream_of(build_pack, fields=["key"])
    expected = seen_keys(stream)
    stream.set_epoch(0)
    running = iter(stream)
    found = list(next(running)[0])
    stream.set_epoch(5)
    found += [key for (keys,) in running for key in keys]
    assert found == expected


def test_the_environment_says_which_rank(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    built, stream = stream_of(build_pack, 3, shuffle="none", fields=["key"])
    assert seen_keys(stream) == built.keys[3:6] + built.keys[9:12]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fields": ["lable"]}, "unknown field 'lable'.*did you mean 'label'"),
        ({"fields": []}, "name one or more"),
        ({"fields": ["key", "key"]}, "name each once"),
        ({"shuffle": "widow"}, "did you mean 'window'"),
        ({"rank": 0}, "go together"),
        ({"batch_size": 0}, "batch_size 0"),
    ],
)
def test_what_cannot_be_is_refused(
    build_pack: BuildPack, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        stream_of(build_pack, **options)


def test_damage_is_an_error_that_names_the_sample(build_pack: BuildPack, format_name: str) -> None:
    built = build_pack([[4, 4]], format_name, sizes=[(64, 40)])
    dataset = PackedDataset(built.root)
    place = int(dataset.pack.index["image.offset"][3]) + 5000
    with built.shard(0).open("r+b") as file:
        file.seek(place)
        file.write(b"\1\2\3\4")
    with pytest.raises(DamageError, match=r"batch 0, .*class3/3\.v1\.jpg"):
        list(BatchStream(dataset, 4))


def bytes_read() -> int:
    """What this process has asked the kernel for, cached or not."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise AssertionError("no rchar in /proc/self/io")


@pytest.mark.skipif(not os.access("/proc/self/io", os.R_OK), reason="needs /proc/self/io")
@pytest.mark.parametrize("shuffle", ["none", "batch", "window"])
def test_an_epoch_reads_little_more_than_its_batches(
    build_pack: BuildPack, format_name: str, shuffle: Shuffle
) -> None:
    """Small random reads are slow: mini-batches of 7 over on-disk batches of 16, checks at first
    reads included.
    """
    built = build_pack([[16] * 8] * 2, format_name, sizes=[(80, 60)])
    dataset = PackedDataset(built.root)
    spans = int(dataset.pack.index["batch_bytes"].sum())
    stream = BatchStream(dataset, 7, shuffle=shuffle, window=4, tail="keep")
    before = bytes_read()
    assert sum(len(labels) for _, labels in stream) == 256
    assert bytes_read() - before <= 1.2 * spans
    stored = sum(len(sample.payloads["image"]) for sample in built.samples)
    assert spans <= 1.25 * stored  # or the measure would say nothing
