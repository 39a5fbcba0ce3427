from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from packer.errors import DamagedSample, UsageError
from packer.reader import PackedDataset
from packer.reader.batches.fields import Fields
from packer.reader.images.collate import collate_images
from packer.reader.images.decoding import Decode
from packer.reader.transforms import (
    CenterCrop,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
)


def test_columns_become_a_mini_batch(build_pack: Any) -> None:
    built = build_pack([[4]], extra=True)
    dataset = PackedDataset(built.root, decode="numpy", target_transform=lambda label: 10 * label)
    names = ("key", "note", "image", "label")
    fields = Fields(dataset, names, seed=0, as_dict=False)
    samples = np.array([2, 0])
    columns = {name: fields.column(name, samples, dataset.payloads.read) for name in names}
    assert [bytes(payload) for payload in columns["image"]] == [
        built.samples[number].payloads["image"] for number in (2, 0)
    ]
    columns["image"] = [
        fields.image(payload, 0, sample)
        for payload, sample in zip(columns["image"], (2, 0), strict=True)
    ]
    batch = fields.mini_batch(fields.collated(columns))
    assert batch._fields == names
    assert batch.key == [built.keys[2], built.keys[0]]
    assert batch.note == [built.samples[2].payloads["note"], None]
    assert batch.label.tolist() == [20, 0]
    assert np.array_equal(batch.image[0].permute(1, 2, 0), built.pixels[2])


def test_a_column_that_is_ready_stays(build_pack: Any) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    fields = Fields(dataset, ["image"], seed=0, as_dict=True)
    ready = torch.zeros(2, 3, 4, 5)
    assert fields.mini_batch(fields.collated({"image": ready}))["image"] is ready


@pytest.mark.parametrize(
    ("codec", "transform"),
    [
        ("raw", None),
        ("raw", [CenterCrop(30)]),
        ("raw", [RandomResizedCrop(30)]),
        ("jpeg", None),
        ("jpeg", [RandomResizedCrop(30), RandomHorizontalFlip()]),
        ("jpeg", [CenterCrop(70)]),
        ("jpeg", [RandomResizedCrop(30), Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))]),
        ("png", [RandomHorizontalFlip()]),
        ("jpeg", [RandomResizedCrop(30), np.asarray]),
    ],
)
@pytest.mark.parametrize("decode", ["numpy", "pil"])
def test_pictures_in_one_tensor_are_those_that_were_made_one_by_one(
    build_pack: Any, codec: str, transform: Any, decode: Decode
) -> None:
    built = build_pack([[11]], codec=codec, sizes=((80, 60),))
    dataset = PackedDataset(built.root, decode=decode, transform=transform)
    fields = Fields(dataset, ["image"], seed=3, as_dict=False)
    samples = [5, 1, 9, 10, 0, 2, 3, 4, 6]
    payloads = fields.column("image", np.array(samples), dataset.payloads.read)
    pairs = zip(payloads, samples, strict=True)
    alone = collate_images([fields.image(payload, 2, sample) for payload, sample in pairs])
    together = fields.collated({"image": fields.images(payloads, 2, samples)})["image"]
    assert torch.equal(together, alone)
    assert (together.dtype, together.stride()) == (alone.dtype, alone.stride())


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_one_that_is_damaged_is_named(build_pack: Any, codec: str) -> None:
    dataset = PackedDataset(build_pack([[11]], codec=codec, sizes=((80, 60),)).root)
    fields = Fields(dataset, ["image"], seed=0, as_dict=False)
    samples = list(range(10))
    payloads = fields.column("image", np.array(samples), dataset.payloads.read)
    for broken in (None, payloads[9][:-20]):
        payloads[9] = broken
        with pytest.raises(DamagedSample) as caught:
            fields.images(payloads, 0, samples)
        assert caught.value.sample == 9


def test_pictures_of_several_sizes_stay_apart(build_pack: Any) -> None:
    built = build_pack([[4]], sizes=((8, 6), (5, 7)))
    dataset = PackedDataset(built.root, decode="numpy")
    fields = Fields(dataset, ["image"], seed=0, as_dict=False)
    payloads = fields.column("image", np.arange(4), dataset.payloads.read)
    images = fields.images(payloads, 0, [0, 1, 2, 3])
    assert [image.shape for image in images] == [pixels.shape for pixels in built.pixels]


def test_draws_depend_on_seed_epoch_and_sample(build_pack: Any) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    drawn = {
        Fields(dataset, ["image"], seed, as_dict=False).draws(epoch, sample).bits()
        for seed in (0, 1)
        for epoch in (0, 1)
        for sample in (0, 1)
    }
    assert len(drawn) == 8


def test_what_is_drawn_depends_on_epoch_and_sample(build_pack: Any) -> None:
    root = build_pack([[4]]).root
    behind: list[Any] = [CenterCrop(3), np.array, RandomHorizontalFlip()]
    fields = [
        Fields(PackedDataset(root, transform=transform, decode="numpy"), ["image"], 0, False)
        for transform in ([RandomHorizontalFlip()], behind)
    ]
    for one in fields:
        places = [(epoch, sample) for epoch in range(3) for sample in range(4)]
        assert len({one.draws(*place).bits() for place in places}) == 12
        assert one.draws(2, 3).bits() == fields[0].draws(2, 3).bits()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("image", "image", "label"), r"invalid fields .*: 'image' twice \(name each once\)"),
        (["label", "key", "label"], "'label' twice"),
        ((), r"invalid fields \(\): none"),
        ("image", r"one text \(fields=\('image',\)\)"),
        (("image", "lable"), "unknown field 'lable'.*did you mean 'label'"),
    ],
)
def test_fields_that_cannot_be(build_pack: Any, names: Any, words: str) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    with pytest.raises(UsageError, match=words):
        Fields(dataset, names, 0, False)
