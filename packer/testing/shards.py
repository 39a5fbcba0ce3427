"""Shards to test formats with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from packer.codecs import load_codec
from packer.formats import load_format
from packer.types import Field, Sample, ShardLayout

#: A sample as it is stored: slot, label, payloads by field name.
Stored: TypeAlias = tuple[int, int, dict[str, bytes]]

LABEL = Field("label", "label", "cls")


@dataclass(frozen=True)
class Shard:
    """A finished shard and what was written to it.

    Attributes:
        format: Name of its format.
        path: Its file.
        fields: Fields of every sample.
        batches: The samples, batch by batch.
        layout: What its writer returned.
    """

    format: str
    path: Path
    fields: tuple[Field, ...]
    batches: list[list[Sample]]
    layout: ShardLayout

    @property
    def samples(self) -> list[Sample]:
        """All samples in order."""
        return [sample for batch in self.batches for sample in batch]

    @property
    def expected(self) -> list[Stored]:
        """What must be stored."""
        return [
            (s.slot, s.label, {name: bytes(data) for name, data in s.payloads.items()})
            for s in self.samples
        ]

    def by_offsets(self) -> list[dict[str, bytes]]:
        """Payloads of each sample, read as packer reads them: by the layout's offsets, out of the
        range of their batch.
        """
        data = self.path.read_bytes()
        found = []
        batch_of = np.repeat(np.arange(len(self.batches)), [len(batch) for batch in self.batches])
        for sample, batch in enumerate(batch_of):
            start = int(self.layout.batch_offset[batch])
            block = data[start : start + int(self.layout.batch_bytes[batch])]
            payloads = {}
            for name, offsets in self.layout.field_offset.items():
                offset, size = int(offsets[sample]), int(self.layout.field_size[name][sample])
                if offset >= 0:
                    assert 0 <= offset - start <= len(block) - size
                    payloads[name] = block[offset - start : offset - start + size]
                else:
                    assert (offset, size) == (-1, -1)
            found.append(payloads)
        return found


def build_shard(
    path: Path,
    format_name: str,
    fields: Sequence[Field],
    batches: Sequence[Sequence[Sample]],
    *,
    one_size: bool = False,
) -> Shard:
    """Write a shard; `path` is the file without its extension."""
    module = load_format(format_name)
    full = path.with_name(f"{path.name}.{module.EXTENSION}")
    writer = module.Writer(full, tuple(fields), one_size=one_size)
    for batch in batches:
        writer.add_batch(batch)
    layout = writer.close()
    return Shard(format_name, full, tuple(fields), [list(batch) for batch in batches], layout)


def image_fields(codec: str | None, *more: Field) -> tuple[Field, ...]:
    """Fields of a pack: image, label and further ones; codec None: an image field of bytes."""
    if codec is None:
        return Field("image", "bytes", "jpg"), LABEL, *more
    return Field("image", "image", load_codec(codec).EXTENSION, codec), LABEL, *more


def make_batches(
    counts: Sequence[int], size: tuple[int, int] = (4, 3), classes: int = 300, seed: int = 0
) -> list[list[Sample]]:
    """Batches with these numbers of samples; every other slot was skipped.

    Args:
        counts: Samples in each batch.
        size: (width, height); payloads have width · height · 3 bytes.
        classes: Number of classes.
        seed: Seed of the payloads' bytes.
    """
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
