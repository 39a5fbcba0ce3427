from __future__ import annotations

import io
import tarfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer import registry
from packer.errors import ConfigError, OutputError
from packer.formats import tar
from packer.types import NO_LABEL, Field, Sample
from tests.formats.shards import BuildShard, ImageFields, MakeBatches

LABEL = Field("label", "label", "cls")
IMAGE = Field("image", "bytes", "jpg")


@given(slot=st.integers(0, 10**11), size=st.integers(0, tar.MAX_MEMBER_BYTES))
def test_header_is_that_of_tarfile(slot: int, size: int) -> None:
    name = tar.member_name(slot, "jpg")
    info = tarfile.TarInfo(name)
    info.size = size
    assert tar.member_header(name, size) == info.tobuf(tarfile.USTAR_FORMAT)


def test_members_are_plain(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches
) -> None:
    """Nothing of this host or time; names without dots before the extension."""
    shard = build("tar", image_fields(None), make_batches([2, 1]))
    with tarfile.open(shard.path) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        "000000000.jpg",
        "000000000.cls",
        "000000002.jpg",
        "000000002.cls",
        "000000004.jpg",
        "000000004.cls",
    ]
    for member in members:
        assert (member.mode, member.mtime, member.uid, member.gid) == (0o644, 0, 0, 0)
        assert (member.uname, member.gname, member.type) == ("", "", tarfile.REGTYPE)
        assert not member.pax_headers


def test_batch_is_the_range_of_its_members(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches
) -> None:
    """A batch's bytes are a tar archive of their own, and all batches and the end are the file."""
    shard = build("tar", image_fields(None), make_batches([3, 0, 2], size=(30, 20)))
    data = shard.path.read_bytes()
    offsets, sizes = shard.layout.batch_offset.tolist(), shard.layout.batch_bytes.tolist()
    assert offsets == [0, 0, sizes[0]]
    assert sum(sizes) + len(tar.END) == len(data)
    for batch, offset, size in zip(shard.batches, offsets, sizes, strict=True):
        with tarfile.open(fileobj=io.BytesIO(data[offset : offset + size] + tar.END)) as part:
            assert len(part.getmembers()) == 2 * len(batch)


def test_no_label_no_member(build: BuildShard) -> None:
    samples = [Sample(i, b"p", NO_LABEL, 1, 1, {"image": b"x"}) for i in range(2)]
    shard = build("tar", (IMAGE, LABEL), [samples])
    with tarfile.open(shard.path) as archive:
        assert archive.getnames() == ["000000000.jpg", "000000001.jpg"]


@pytest.mark.parametrize("counts", [[3, 3, 1], [0, 2], [1]])
def test_webdataset_reads_it(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches, counts: list[int]
) -> None:
    """Dots in a path split samples elsewhere; webdataset must see one sample a picture, all fields
    side by side.
    """
    extra = Field("extra", "bytes", "meta.json")
    batches = [
        [replace(sample, payloads={**sample.payloads, "extra": b'{"path": 1}'}) for sample in batch]
        for batch in make_batches(counts)
    ]
    shard = build("tar", image_fields(None, extra), batches)
    seen = _webdataset(shard.path)
    assert [sample["__key__"] for sample in seen] == [f"{s.slot:09d}" for s in shard.samples]
    for found, written in zip(seen, shard.samples, strict=True):
        assert found["jpg"] == written.payloads["image"]
        assert int(found["cls"]) == written.label
        assert found["meta.json"] == b'{"path": 1}'


@pytest.mark.skipif("raw" not in registry.names("codecs"), reason="there is no codec raw")
def test_webdataset_decodes_raw_pictures(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches
) -> None:
    """A raw picture is a `.npy` file for others, while the index points at its pixels."""
    shard = build("tar", image_fields("raw"), make_batches([2], size=(5, 4)), True)
    for sample, written in zip(_webdataset(shard.path), shard.samples, strict=True):
        pixels = np.load(io.BytesIO(sample["npy"]))
        assert (pixels.shape, pixels.dtype) == ((4, 5, 3), np.uint8)
        assert pixels.tobytes() == written.payloads["image"]


def test_empty_archive_is_one(build: BuildShard, image_fields: ImageFields) -> None:
    shard = build("tar", image_fields(None), [])
    with tarfile.open(shard.path) as archive:
        assert archive.getmembers() == []
    assert shard.path.read_bytes() == bytes(1024)


class _Huge(bytes):
    """Says that it is as large as no test could hold."""

    def __len__(self) -> int:
        return 8**11


def test_refuses_members_that_ustar_cannot_hold(tmp_path: Path) -> None:
    writer = tar.Writer(tmp_path / "shard", (IMAGE,), one_size=False)
    with pytest.raises(OutputError, match=r"shard: field 'image' of slot 7 has 8589934592 bytes"):
        writer.add_batch([Sample(7, b"p", 0, 1, 1, {"image": _Huge()})])
    writer.abort()


@pytest.mark.parametrize("extension", ["JPG", "", "a b", "a/b", ".jpg", "jpg.", "é", "x" * 90])
def test_refuses_extensions_that_readers_trip_over(extension: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"invalid extension .* of a tar member"):
        tar.Writer(tmp_path / "shard", (Field("image", "bytes", extension),), one_size=False)
    assert list(tmp_path.iterdir()) == []


def test_refuses_equal_extensions(tmp_path: Path) -> None:
    fields = (IMAGE, Field("other", "bytes", "jpg"))
    with pytest.raises(ConfigError, match="two fields have the extension 'jpg'"):
        tar.Writer(tmp_path / "shard", fields, one_size=False)


def _webdataset(path: Path) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        # What webdataset itself leaves open or outdated is not ours.
        warnings.simplefilter("ignore")
        import webdataset

        dataset = webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
        return list(dataset)
