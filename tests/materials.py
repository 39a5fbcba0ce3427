"""Inputs of mini-batches, for tests of the code that makes mini-batches."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from packer.reader import PackedDataset
from packer.reader.batches.fields import Fields
from packer.reader.batches.material import Material
from packer.reader.order.course import make_schedule
from packer.reader.order.options import OrderOptions
from tests.packs import Built


class MakeMaterial(Protocol):
    """Makes what mini-batches are made from; options are those of PackedDataset."""

    def __call__(
        self, built: Built, batch_size: int, planes: bool = False, **options: Any
    ) -> Material: ...


@pytest.fixture
def make_material() -> MakeMaterial:
    """make_material(built, 4, transform=…) → mini-batches of 4, in order: key, image, label."""

    def make(built: Built, batch_size: int, planes: bool = False, **options: Any) -> Material:
        names = options.pop("fields", ("key", "image", "label"))
        dataset = PackedDataset(built.root, **{"decode": "numpy", **options})
        schedule = make_schedule(dataset.pack, OrderOptions(batch_size, "none"))
        fields = Fields(dataset, names, 0, as_dict=False)
        return Material(dataset, schedule, fields, planes=planes)

    return make
