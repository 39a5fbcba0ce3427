"""Fixtures of this room's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from packer.reader import PackedDataset
from packer.reader.batches.fields import Fields
from packer.reader.batches.material import Material
from packer.reader.order.course import make_schedule
from packer.reader.order.options import OrderOptions
from tests.packs import build_pack, fake_pack, format_name

__all__ = ["build_pack", "fake_pack", "format_name", "make_material"]

MakeMaterial = Callable[..., Material]


@pytest.fixture
def make_material() -> MakeMaterial:
    """make_material(built, 4, transform=…) → mini-batches of 4, in order: key, image, label."""

    def make(built: Any, batch_size: int, planes: bool = False, **options: Any) -> Material:
        names = options.pop("fields", ("key", "image", "label"))
        dataset = PackedDataset(built.root, **{"decode": "numpy", **options})
        schedule = make_schedule(dataset.pack, OrderOptions(batch_size, "none"))
        fields = Fields(dataset, names, 0, as_dict=False)
        return Material(dataset, schedule, fields, planes=planes)

    return make
