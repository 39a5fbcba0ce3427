from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from packer.errors import UsageError
from packer.reader import PackedDataset
from packer.reader.batches.fields import Fields
from packer.reader.transforms import (
    CenterCrop,
    RandomHorizontalFlip,
)
from tests.packs import BuildPack


def test_columns_become_a_mini_batch(build_pack: BuildPack) -> None:
    built = build_pack([[4]], extra=True)
    dataset = PackedDataset(built.root, decode="numpy", target_transform=lambda label: 10 * label)
    names = ("key", "note", "image", "label")
    fields = Fields(dataset, names, seed=0, as_dict=False)
    samples = np.array([2, 0])
    read = dataset.payloads.read
    columns = {name: fields.column(name, samples, read) for name in names if name != "image"}
    columns["image"] = [
        fields.image(payload, 0, sample)
        for payload, sample in zip(read(samples, "image"), (2, 0), strict=True)
    ]
    batch = fields.mini_batch(fields.collated(columns))
    assert batch._fields == names
    assert batch.key == [built.keys[2], built.keys[0]]
    assert batch.note == [built.samples[2].payloads["note"], None]
    assert batch.label.tolist() == [20, 0]
    assert np.array_equal(batch.image[0].permute(1, 2, 0), built.pixels[2])


def test_a_column_that_is_ready_stays(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    fields = Fields(dataset, ["image"], seed=0, as_dict=True)
    ready = torch.zeros(2, 3, 4, 5)
    assert fields.mini_batch(fields.collated({"image": ready}))["image"] is ready


def test_a_column_may_come_later(build_pack: BuildPack) -> None:
    """The fields keep their order."""
    dataset = PackedDataset(build_pack([[4]]).root)
    for as_dict in (True, False):
        fields = Fields(dataset, ["image", "label"], 0, as_dict)
        columns = fields.collated({"label": [1, 2]})
        columns["image"] = torch.zeros(2, 3, 4, 5)
        mini_batch = fields.mini_batch(columns)
        assert (list(mini_batch) if as_dict else list(mini_batch._fields)) == ["image", "label"]


def test_draws_depend_on_seed_epoch_and_sample(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    drawn = {
        Fields(dataset, ["image"], seed, as_dict=False).draws(epoch, sample).bits()
        for seed in (0, 1)
        for epoch in (0, 1)
        for sample in (0, 1)
    }
    assert len(drawn) == 8


def test_what_is_drawn_depends_on_epoch_and_sample(build_pack: BuildPack) -> None:
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
def test_fields_that_cannot_be(build_pack: BuildPack, names: Any, words: str) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    with pytest.raises(UsageError, match=words):
        Fields(dataset, names, 0, False)
