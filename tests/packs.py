"""Small packs, made with the formats' writers alone."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

import numpy as np
import pytest

from packer import registry
from packer.pack.columns import (
    FINGERPRINT_BYTES,
    ShardColumns,
    ShardRecord,
    encode_shard_index,
    index_name,
)
from packer.pack.manifest import Manifest, SplitRecord
from packer.packing.completion import write_beside
from packer.settings.options import ImageOptions
from packer.types import Array, Field, Pixels, Sample

CLASSES = tuple(f"class{label}" for label in range(5))


@dataclass(frozen=True)
class Built:
    """A pack on disk and what went into it."""

    root: Path
    manifest: Manifest
    samples: list[Sample]
    pixels: list[Pixels]

    @property
    def labels(self) -> list[int]:
        return [sample.label for sample in self.samples]

    @property
    def keys(self) -> list[str]:
        return [sample.path.decode() for sample in self.samples]

    def shard(self, number: int) -> Path:
        return self.root / self.manifest.splits["train"].shards[number].name


class PackOptions(TypedDict):
    """Arguments of `build_pack` that tests of a file share: `build_pack(**BIG, name="other")`."""

    shards: Sequence[Sequence[int]]
    sizes: Sequence[tuple[int, int]]


class BuildPack(Protocol):
    """Makes a pack of shards with so many batches of so many samples."""

    def __call__(
        self,
        shards: Sequence[Sequence[int]],
        format_name: str = "tar",
        codec: str = "raw",
        *,
        sizes: Sequence[tuple[int, int]] = ((8, 6),),
        extra: bool = False,
        seed: int = 0,
        name: str = "pack",
    ) -> Built: ...


#: Makes a pack of (samples, batch size) with a large index and hardly any data.
FakePack = Callable[[int, int], Path]


def draw(number: int, width: int, height: int) -> Pixels:
    """A picture that is smooth, so that JPEG hardly changes it, and different for each number."""
    y, x = np.mgrid[0:height, 0:width]
    channels = [x * 3 + number * 7, y * 3 + number * 13, x + y + number * 29]
    return np.stack([128 + 100 * np.sin(c / 40) for c in channels], axis=2).astype(np.uint8)


@pytest.fixture
def build_pack(tmp_path: Path) -> BuildPack:
    """build_pack([[4, 4], [3]]) → a pack of two shards, with two batches and one.

    Further arguments: format, codec, sizes (pictures' (width, height), in turn), extra (a field of
    bytes, absent in every third sample), seed (other pictures, same sizes), name (its folder).
    """

    def build(
        shards: Sequence[Sequence[int]],
        format_name: str = "tar",
        codec: str = "raw",
        *,
        sizes: Sequence[tuple[int, int]] = ((8, 6),),
        extra: bool = False,
        seed: int = 0,
        name: str = "pack",
    ) -> Built:
        root = tmp_path / name
        root.mkdir(parents=True)
        image = Field("image", "image", registry.load("codecs", codec).EXTENSION, codec)
        fields = [image, Field("label", "label", "cls")]
        fields += [Field("note", "bytes", "txt")] if extra else []
        samples: list[Sample] = []
        pixels: list[Pixels] = []
        records = []
        for number, counts in enumerate(shards):
            batches = []
            for count in counts:
                start = len(samples)
                for place in range(start, start + count):
                    width, height = sizes[place % len(sizes)]
                    pixels.append(draw(place + seed, width, height))
                    samples.append(_sample(place, pixels[-1], codec, extra))
                batches.append(samples[start:])
            records.append(_write_shard(root, number, format_name, fields, batches))
        manifest = finish_split(root, format_name, fields, records)
        return Built(root, manifest, samples, pixels)

    return build


@pytest.fixture(params=["tar", "lmdb", "hdf5"])
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _sample(number: int, pixels: Pixels, codec: str, extra: bool) -> Sample:
    payload = registry.load("codecs", codec).encode(pixels, ImageOptions(quality=95))
    payloads = {"image": payload}
    if extra and number % 3:
        payloads["note"] = b"note %d" % number
    height, width = pixels.shape[:2]
    path = b"class%d/%d.v1.jpg" % (number % 5, number)
    return Sample(2 * number, path, number % 5, width, height, payloads)


def _write_shard(
    root: Path,
    number: int,
    format_name: str,
    fields: Sequence[Field],
    batches: Sequence[Sequence[Sample]],
) -> ShardRecord:
    module = registry.load("formats", format_name)
    path = root / f"train-{number:06d}.{module.EXTENSION}"
    writer = module.Writer(path, fields, one_size=False)
    columns = ShardColumns(fields)
    for batch in batches:
        writer.add_batch(batch)
        columns.add_batch(batch)
    arrays = columns.arrays(writer.close())
    record = record_of(path, sum(map(len, batches)), len(batches))
    (root / index_name(path.name)).write_bytes(encode_shard_index(arrays, record))
    return record


def record_of(path: Path, samples: int, batches: int) -> ShardRecord:
    data = path.read_bytes()
    prints = zlib.crc32(data[:FINGERPRINT_BYTES]), zlib.crc32(data[-FINGERPRINT_BYTES:])
    digest = hashlib.sha256(data).hexdigest()
    return ShardRecord(path.name, len(data), digest, prints, samples, batches)


def finish_split(
    root: Path, format_name: str, fields: Sequence[Field], records: Sequence[ShardRecord]
) -> Manifest:
    """Write the split's index and all else that a pack has beside its shards."""
    samples = sum(record.samples for record in records)
    draft = Manifest(
        name="drawn",
        format=format_name,
        batch_size=4,
        fields=tuple(fields),
        classes=CLASSES,
        display_names=CLASSES,
        splits={"train": SplitRecord.of_shards("train", records)},
        counts={"planned": samples, "packed": samples, "skipped": 0},
    )
    return write_beside(root, draft, b"", lambda name, data: write(root / name, data))


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.fixture
def fake_pack(tmp_path: Path) -> FakePack:
    """fake_pack(samples, batch_size) → a pack of so many samples whose payloads are all the same
    16 bytes of one small shard: a large index that costs no time to read through.
    """

    def build(samples: int, batch_size: int) -> Path:
        root = tmp_path / "fake"
        root.mkdir()
        shard = root / "train-000000.tar"
        shard.write_bytes(bytes(range(16)) * 64)
        batches = -(-samples // batch_size)
        counts = np.full(batches, batch_size, "<i4")
        counts[-1] = samples - batch_size * (batches - 1)
        record = record_of(shard, samples, batches)
        ends = np.arange(samples + 1, dtype="<i8")
        arrays: dict[str, Array] = {
            "batch_offset": np.zeros(batches, "<i8"),
            "batch_bytes": np.full(batches, 16, "<i8"),
            "batch_first": np.arange(batches, dtype="<i8") * batch_size,
            "batch_count": counts,
            "slot": np.arange(samples, dtype="<i8"),
            "label": np.arange(samples, dtype="<i4") % 5,
            "width": np.ones(samples, "<i4"),
            "height": np.ones(samples, "<i4"),
            "image.offset": np.zeros(samples, "<i8"),
            "image.size": np.full(samples, 16, "<i8"),
            "image.crc32": np.full(samples, zlib.crc32(bytes(range(16))), "<u4"),
            "path_offset": ends,
            "path_bytes": np.full(samples, ord("p"), "u1"),
        }
        (root / "train-000000.index").write_bytes(encode_shard_index(arrays, record))
        fields = [Field("image", "image", "jpg", "jpeg"), Field("label", "label", "cls")]
        # No shard of tar has all samples at one place; others have no companions.
        finish_split(root, "lmdb", fields, [record])
        return root

    return build
