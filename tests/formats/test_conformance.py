"""Contract of a format, tested on every format in packer/formats and codec in packer/codecs."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packer import registry
from packer.errors import MissingDependency, OutputError
from packer.types import NO_LABEL, Field, Sample
from tests.formats.shards import BuildShard, ImageFields, MakeBatches

FORMATS = registry.names("formats")
#: None: a field of kind bytes, coded by nothing.
CODECS = (None, *registry.names("codecs"))
EXTRA = Field("extra", "bytes", "bin")

each_format = pytest.mark.parametrize("format_name", FORMATS)
each_codec = pytest.mark.parametrize("codec", CODECS)


def _open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc to list open files")
    found = []
    for entry in folder.iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return sorted(found)


def _check(shard: Any) -> None:
    """Both ways of reading give back what was written, and the layout is sound."""
    assert shard.by_preads() == [payloads for _, _, payloads in shard.expected]
    assert shard.alone() == shard.expected
    _check_ranges(shard)


def _check_ranges(shard: Any) -> None:
    """Batches lie within the file and do not overlap; empty ones are 0, 0."""
    layout = shard.layout
    counts = [len(batch) for batch in shard.batches]
    assert len(layout.batch_offset) == len(layout.batch_bytes) == len(counts)
    ranges = []
    for start, size, count in zip(layout.batch_offset, layout.batch_bytes, counts, strict=True):
        if count == 0 or size == 0:
            assert (start, size) == (0, 0)
        else:
            ranges.append((int(start), int(start + size)))
    ranges.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    if ranges:
        assert ranges[0][0] >= 0
        assert ranges[-1][1] <= shard.path.stat().st_size


@each_format
@each_codec
@pytest.mark.parametrize(
    "counts",
    [
        [],
        [1],
        [0],
        [4, 4, 3],
        [0, 4, 0, 0, 3, 0],
    ],
    ids=["no-batch", "one-sample", "no-sample", "last-short", "emptied"],
)
def test_gives_back_what_was_written(
    build: BuildShard,
    image_fields: ImageFields,
    make_batches: MakeBatches,
    format_name: str,
    codec: str,
    counts: list[int],
) -> None:
    _check(build(format_name, image_fields(codec), make_batches(counts), codec == "raw"))


@each_format
@each_codec
def test_hard_payloads(
    build: BuildShard, image_fields: ImageFields, format_name: str, codec: str | None
) -> None:
    """1 byte, 5 MB, with NULs, ending in NULs, all NULs; for raw, pictures of such sizes."""
    sizes = [(1, 1), (1300, 1300), (5, 1), (1, 7), (2, 2)]
    draw = np.random.default_rng(1)
    payloads = [draw.bytes(width * height * 3) for width, height in sizes]
    payloads[2] = b"a\0b\0\0c".ljust(15, b"x")
    payloads[3] = b"abc".ljust(21, b"\0")
    payloads[4] = bytes(12)
    if codec != "raw":
        payloads[0] = b"x"
    samples = [
        Sample(slot, b"p%d" % slot, slot, width, height, {"image": payload, "extra": payload[::-1]})
        for slot, ((width, height), payload) in enumerate(zip(sizes, payloads, strict=True))
    ]
    assert max(len(payload) for payload in payloads) > 5_000_000
    _check(build(format_name, image_fields(codec, EXTRA), [samples[:2], samples[2:]]))


@each_format
def test_fields_may_be_absent_or_empty(
    build: BuildShard, image_fields: ImageFields, format_name: str
) -> None:
    given_fields = [
        {"image": b"picture", "extra": b"\0"},
        {"image": b"picture"},
        {"image": b"picture", "extra": b""},
    ]
    samples = [
        Sample(slot, b"p", NO_LABEL if slot == 1 else slot, 1, 1, payloads)
        for slot, payloads in enumerate(given_fields)
    ]
    shard = build(format_name, image_fields(None, EXTRA), [samples[:1], samples[1:]])
    _check(shard)
    assert shard.layout.field_offset["extra"][1] == shard.layout.field_size["extra"][1] == -1
    assert shard.layout.field_size["extra"][2] == 0


@each_format
def test_only_empty_payloads(
    build: BuildShard, image_fields: ImageFields, format_name: str
) -> None:
    """A batch with samples but without a byte of its own is still read back."""
    samples = [Sample(slot, b"p", 1, 1, 1, {"image": b""}) for slot in range(3)]
    _check(build(format_name, image_fields(None), [samples, samples[:0]]))


@each_format
def test_order_is_that_of_the_slots(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches, format_name: str
) -> None:
    """Keys sorted as text give 0, 1, 10, 2; more than 10 batches and 1,000 samples keep their
    order.
    """
    shard = build(format_name, image_fields(None), make_batches([100] * 12 + [7]))
    _check(shard)
    seen = shard.alone()
    assert [slot for slot, _, _ in seen] == list(range(0, 2 * 1207, 2))
    assert len({label for _, label, _ in seen}) == 300


@each_format
def test_dots_and_odd_bytes_in_paths(
    build: BuildShard, image_fields: ImageFields, format_name: str
) -> None:
    """Dots in a path split a sample elsewhere; here each file is one sample, whatever its name."""
    paths = [
        b"train.v1/22.05.png",
        b"a.b.jpeg",
        b"Track 2.0 (x).jpg",
        b"001.ak47/.1.jpg",
        b"\xff\xfe/\x01.jpg",
        b"a" * 4000,
        b"",
    ]
    samples = [Sample(i, path, i, 1, 1, {"image": path}) for i, path in enumerate(paths)]
    _check(build(format_name, image_fields(None), [samples]))


@each_format
def test_batches_ascend(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches, format_name: str
) -> None:
    """Batches of 16 KB and more follow each other, so an epoch in order reads forwards."""
    shard = build(format_name, image_fields(None), make_batches([5] * 60, size=(100, 12)))
    assert (np.diff(shard.layout.batch_offset) > 0).all()
    assert shard.path.stat().st_size < 1.6 * shard.layout.batch_bytes.sum()


def test_equal_calls_write_equal_bytes(
    build: BuildShard, image_fields: ImageFields, make_batches: MakeBatches, tmp_path: Path
) -> None:
    """Neither the time nor the file's name nor what memory held is in a shard."""
    batches = make_batches([3, 0, 40, 1], size=(30, 20))
    digests = []
    for round_number in range(2):
        folder = tmp_path / f"round-{round_number}"
        folder.mkdir()
        for format_name in FORMATS:
            for codec in CODECS:
                name = f"{codec}-{round_number}"
                arguments = (format_name, image_fields(codec), batches, codec == "raw")
                shard = build(*arguments, folder=folder, name=name)
                digests.append(hashlib.sha256(shard.path.read_bytes()).hexdigest())
        time.sleep(1.1 * (round_number == 0))  # times in files have seconds
    half = len(digests) // 2
    assert digests[:half] == digests[half:]
    assert len(set(digests)) >= len(FORMATS)


@each_format
def test_never_overwrites(
    build: BuildShard, image_fields: ImageFields, format_name: str, tmp_path: Path
) -> None:
    path = tmp_path / f"shard.{registry.load('formats', format_name).EXTENSION}"
    path.write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        build(format_name, image_fields(None), [])
    assert path.read_bytes() == b"mine"


@each_format
def test_missing_folder(
    build: BuildShard, image_fields: ImageFields, format_name: str, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        build(format_name, image_fields(None), [], folder=tmp_path / "nowhere")


@each_format
@pytest.mark.parametrize("batches", [0, 1, 3])
def test_abort_leaves_nothing_open(
    image_fields: ImageFields,
    make_batches: MakeBatches,
    format_name: str,
    batches: int,
    tmp_path: Path,
) -> None:
    writer_class = registry.load("formats", format_name).Writer
    before = _open_files()
    writer = writer_class(tmp_path / "shard", image_fields(None), one_size=False)
    for batch in make_batches([4] * batches, size=(200, 100)):
        writer.add_batch(batch)
    assert _open_files() != before
    writer.abort()
    assert _open_files() == before
    writer.abort()  # twice does no harm
    assert [path.name for path in tmp_path.iterdir()] == ["shard"]  # no lock file or the like


@each_format
def test_close_leaves_nothing_open(
    build: BuildShard,
    image_fields: ImageFields,
    make_batches: MakeBatches,
    format_name: str,
    tmp_path: Path,
) -> None:
    before = _open_files()
    build(format_name, image_fields(None), make_batches([4, 4]))
    assert _open_files() == before
    assert len(list(tmp_path.iterdir())) == 1


@each_format
def test_refused_sync(
    image_fields: ImageFields,
    make_batches: MakeBatches,
    format_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full NFS server lets every write succeed and says so at fsync alone."""

    def refuse(fd: int) -> None:
        raise OSError(28, "No space left on device")

    before = _open_files()
    path = tmp_path / "shard"
    writer = registry.load("formats", format_name).Writer(path, image_fields(None), one_size=False)
    writer.add_batch(make_batches([4])[0])
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OutputError, match=r"shard: No space left on device \(free some space"):
        writer.close()
    writer.abort()
    assert _open_files() == before


_field_names = st.sampled_from(["image", "extra", "more"])
_sample = st.tuples(
    st.integers(NO_LABEL, 299),
    st.dictionaries(_field_names, st.binary(max_size=3000), max_size=3),
    st.binary(max_size=30),
)


@each_format
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(st.lists(_sample, max_size=4), max_size=5))
def test_any_samples(
    tmp_path_factory: pytest.TempPathFactory, format_name: str, drawn: Any
) -> None:
    """Whatever the batches, fields and payloads: every payload is where the layout says."""
    folder = tmp_path_factory.mktemp("any")
    fields = (
        Field("image", "bytes", "jpg"),
        Field("label", "label", "cls"),
        Field("extra", "bytes", "bin"),
        Field("more", "bytes", "more.txt"),
    )
    slot = 0
    batches: list[list[Sample]] = []
    for rows in drawn:
        batches.append([])
        for label, payloads, path in rows:
            batches[-1].append(Sample(slot, path, label, 1, 1, payloads))
            slot += 1
    writer = registry.load("formats", format_name).Writer(folder / "shard", fields, one_size=False)
    for batch in batches:
        writer.add_batch(batch)
    layout = writer.close()
    content = (folder / "shard").read_bytes()
    (folder / "shard").unlink()
    samples = [sample for batch in batches for sample in batch]
    for number, sample in enumerate(samples):
        for name in ("image", "extra", "more"):
            offset = int(layout.field_offset[name][number])
            size = int(layout.field_size[name][number])
            payload = sample.payloads.get(name)
            assert (content[offset : offset + size] if offset >= 0 else None) == payload
    first = 0
    for batch, start, size in zip(batches, layout.batch_offset, layout.batch_bytes, strict=True):
        for number in range(first, first + len(batch)):
            for name in ("image", "extra", "more"):
                offset = layout.field_offset[name][number]
                assert offset < 0 or start <= offset <= start + size
        first += len(batch)


@each_format
def test_missing_library_is_named(
    image_fields: ImageFields, format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = registry.load("formats", format_name)
    if not module.EXTRA:
        pytest.skip(f"{format_name} needs no library")
    monkeypatch.setitem(sys.modules, module.EXTRA, None)
    with pytest.raises(MissingDependency, match=rf"needs {module.EXTRA}.*pip install"):
        module.Writer(tmp_path / "shard", image_fields(None), one_size=False)
    assert list(tmp_path.iterdir()) == []


def test_every_format_says_what_it_needs() -> None:
    modules = [registry.load("formats", name) for name in FORMATS]
    assert {"tar", "lmdb", "hdf5"} <= set(FORMATS)
    assert len({module.EXTENSION for module in modules}) == len(modules)
    assert all(isinstance(module.EXTRA, str) for module in modules)
