"""Fixtures of this room's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from packer import testing
from packer.testing import shards
from packer.testing.shards import build_shard
from packer.types import Field, Sample
from tests.formats.shards import BuildShard, ImageFields, MakeBatches, Shard, read_alone


@pytest.fixture
def build(tmp_path: Path) -> BuildShard:
    """build(format, fields, batches, one_size=False, name="shard") → Shard."""

    def make(
        format_name: str,
        fields: Sequence[Field],
        batches: Sequence[Sequence[Sample]],
        one_size: bool = False,
        folder: Path = tmp_path,
        name: str = "shard",
    ) -> Shard:
        shard = build_shard(folder / name, format_name, fields, batches, one_size=one_size)
        return Shard(**vars(shard))

    return make


@pytest.fixture
def image_fields() -> ImageFields:
    """image_fields(codec, *more) → the fields of a pack: image, label and others."""
    return shards.image_fields


@pytest.fixture
def make_batches() -> MakeBatches:
    """See `packer.testing.shards.make_batches`."""
    return shards.make_batches


@pytest.fixture
def alone() -> Callable[[testing.Shard], list[testing.Stored] | None]:
    """Reads a shard by its format's own library; None if there is no reader."""
    return read_alone
