"""Fixtures of this room's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from packer.packing.planning.agreement import Agreement, unfinished_pack
from packer.settings.options import ConvertOptions


@pytest.fixture
def make_agreement() -> Callable[..., Agreement]:
    """An agreement on 22 slots in 3 shards, as if read from plan.json."""

    def make(**changes: Any) -> Agreement:
        values: dict[str, Any] = {
            "name": "photos",
            "options": ConvertOptions(batch_size=4).affecting_bytes(),
            "libraries": {"packer": "0.1.0"},
            "listing_sha256": "ab" * 32,
            "classes": ("a", "b"),
            "display_names": ("A", "B"),
            "splits": {"val": (0, 6), "train": (6, 22)},
            "shard_batches": 2,
            "ignored": {},
        }
        values |= changes
        plan = {name: values.pop(name) for name in ("splits", "shard_batches", "ignored")}
        return Agreement(unfinished_pack(**values), **plan)

    return make
