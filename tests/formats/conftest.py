"""Fixtures of this room's tests: shards, and their fields and batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from packer import registry
from packer.types import Field, Sample
from tests.formats.shards import LABEL, BuildShard, ImageFields, MakeBatches, Shard


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
        module = registry.load("formats", format_name)
        path = folder / f"{name}.{module.EXTENSION}"
        writer = module.Writer(path, tuple(fields), one_size=one_size)
        for batch in batches:
            writer.add_batch(batch)
        layout = writer.close()
        return Shard(format_name, path, tuple(fields), [list(batch) for batch in batches], layout)

    return make


@pytest.fixture
def image_fields() -> ImageFields:
    """image_fields(codec, *more) → the fields of a pack: image, label and others."""

    def make(codec: str | None, *more: Field) -> tuple[Field, ...]:
        if codec is None:
            return Field("image", "bytes", "jpg"), LABEL, *more
        extension = registry.load("codecs", codec).EXTENSION
        return Field("image", "image", extension, codec), LABEL, *more

    return make


@pytest.fixture
def make_batches() -> MakeBatches:
    """make_batches(counts, size=(4, 3)) → batches of so many samples, payloads of
    width · height · 3 bytes each; every other slot was skipped.
    """

    def make(
        counts: Sequence[int], size: tuple[int, int] = (4, 3), classes: int = 300, seed: int = 0
    ) -> list[list[Sample]]:
        draw = np.random.default_rng(seed)
        width, height = size
        batches: list[list[Sample]] = []
        number = 0
        for count in counts:
            batch = []
            for _ in range(count):
                label = number % classes
                path = b"%03d.class/%d.v1.jpg" % (label, number)
                payloads = {"image": draw.bytes(width * height * 3)}
                batch.append(Sample(2 * number, path, label, width, height, payloads))
                number += 1
            batches.append(batch)
        return batches

    return make
