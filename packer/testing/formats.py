"""Conformance tests of a format."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from packer import registry
from packer.errors import MissingDependency, OutputError
from packer.formats import Format, load_format
from packer.testing.shards import Shard, Stored, build_shard, image_fields, make_batches
from packer.types import NO_LABEL, Field, Sample

Build = Callable[..., Shard]
ReadAlone = Callable[[Shard], "list[Stored] | None"]

#: None: a field of kind bytes, which no codec encodes.
CODECS = (None, *registry.own_names("codecs"))
EXTRA = Field("extra", "bytes", "bin")


def open_files() -> list[str]:
    """Targets of this process's file descriptors."""
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


def check_ranges(shard: Shard) -> None:
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


def raw_samples() -> list[Sample]:
    """Payloads with NULs inside, at the end, everywhere; of 5 MB; in sizes of raw pictures."""
    sizes = [(1, 1), (1300, 1300), (5, 1), (1, 7), (2, 2)]
    draw = np.random.default_rng(1)
    payloads = [draw.bytes(width * height * 3) for width, height in sizes]
    payloads[2] = b"a\0b\0\0c".ljust(15, b"x")
    payloads[3] = b"abc".ljust(21, b"\0")
    payloads[4] = bytes(12)
    return [
        Sample(slot, b"p%d" % slot, slot, width, height, {"image": payload, "extra": payload[::-1]})
        for slot, ((width, height), payload) in enumerate(zip(sizes, payloads, strict=True))
    ]


class FormatSuite:
    """What every format must do; subclass it and name the format.

    Attributes:
        NAME: Name of the format, as in `--format`.
    """

    NAME: ClassVar[str] = ""

    def read_alone(self, shard: Shard) -> list[Stored] | None:
        """What another library than packer reads in a shard; None if there is none."""
        return None

    @pytest.fixture
    def name(self) -> str:
        """Name of the format."""
        return self.NAME

    @pytest.fixture
    def module(self, name: str) -> Format:
        """The format's module."""
        return load_format(name)

    @pytest.fixture
    def alone(self) -> ReadAlone:
        """See `read_alone`."""
        return self.read_alone

    @pytest.fixture
    def write(self, name: str, tmp_path: Path) -> Build:
        """Writes a shard: `write(fields, batches)`; also one_size, folder and stem (its name)."""

        def write(
            fields: Sequence[Field],
            batches: Sequence[Sequence[Sample]],
            *,
            one_size: bool = False,
            folder: Path = tmp_path,
            stem: str = "shard",
        ) -> Shard:
            return build_shard(folder / stem, name, fields, batches, one_size=one_size)

        return write

    @pytest.fixture
    def check(self, alone: ReadAlone) -> Callable[[Shard], None]:
        """Check that both ways of reading return what was written, and that the layout is valid."""

        def check(shard: Shard) -> None:
            assert shard.by_offsets() == [payloads for _, _, payloads in shard.expected]
            found = alone(shard)
            assert found is None or found == shard.expected
            check_ranges(shard)

        return check

    def test_attributes_are_valid(self, name: str, module: Format) -> None:
        assert registry.is_offered("formats", name)
        assert module.EXTENSION.lower().strip(".") == module.EXTENSION != ""
        assert isinstance(module.EXTRA, str)
        assert isinstance(module.WEBDATASET, bool)
        others = [other for other in registry.own_names("formats") if other != name]
        taken = {load_format(other).EXTENSION for other in others}
        assert module.EXTENSION not in taken or module.WEBDATASET
        assert isinstance(module.READING, str)

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize(
        "counts",
        [[], [1], [0], [4, 4, 3], [0, 4, 0, 0, 3, 0]],
        ids=["no-batch", "one-sample", "no-sample", "last-short", "emptied"],
    )
    def test_returns_what_was_written(
        self, write: Build, check: Callable[[Shard], None], codec: str | None, counts: list[int]
    ) -> None:
        check(write(image_fields(codec), make_batches(counts), one_size=codec == "raw"))

    @pytest.mark.parametrize("codec", CODECS)
    def test_hard_payloads(
        self, write: Build, check: Callable[[Shard], None], codec: str | None
    ) -> None:
        samples = raw_samples()
        if codec != "raw":
            samples[0] = Sample(0, b"p0", 0, 1, 1, {"image": b"x", "extra": b"x"})
        check(write(image_fields(codec, EXTRA), [samples[:2], samples[2:]]))

    def test_fields_may_be_absent_or_empty(
        self, write: Build, check: Callable[[Shard], None]
    ) -> None:
        given = [
            {"image": b"picture", "extra": b"\0"},
            {"image": b"picture"},
            {"image": b"picture", "extra": b""},
        ]
        samples = [
            Sample(slot, b"p", NO_LABEL if slot == 1 else slot, 1, 1, payloads)
            for slot, payloads in enumerate(given)
        ]
        shard = write(image_fields(None, EXTRA), [samples[:1], samples[1:]])
        check(shard)
        assert shard.layout.field_offset["extra"][1] == shard.layout.field_size["extra"][1] == -1
        assert shard.layout.field_size["extra"][2] == 0

    def test_only_empty_payloads(self, write: Build, check: Callable[[Shard], None]) -> None:
        samples = [Sample(slot, b"p", 1, 1, 1, {"image": b""}) for slot in range(3)]
        check(write(image_fields(None), [samples, samples[:0]]))

    def test_samples_keep_their_order(
        self, write: Build, check: Callable[[Shard], None], alone: ReadAlone
    ) -> None:
        """More than ten batches and a thousand samples of 300 classes, not in text order."""
        shard = write(image_fields(None), make_batches([100] * 12 + [7]))
        check(shard)
        found = alone(shard) or []
        assert [slot for slot, _, _ in found] in ([], list(range(0, 2 * 1207, 2)))

    def test_paths_are_only_data(self, write: Build, check: Callable[[Shard], None]) -> None:
        """Dots, spaces, bytes that are no UTF-8, very long and empty paths."""
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
        check(write(image_fields(None), [samples]))

    def test_batches_ascend(self, write: Build) -> None:
        """Batches of 16 KB and more follow each other: a sequential epoch reads forwards."""
        shard = write(image_fields(None), make_batches([5] * 60, size=(100, 12)))
        assert (np.diff(shard.layout.batch_offset) > 0).all()
        assert shard.path.stat().st_size < 1.6 * shard.layout.batch_bytes.sum()

    def test_digest(self, write: Build) -> None:
        """A writer may leave the digest out; a wrong one would make the shard look damaged."""
        shard = write(image_fields(None), make_batches([3, 2]))
        digest = hashlib.sha256(shard.path.read_bytes()).hexdigest()
        assert shard.layout.sha256 in (None, digest)

    def test_equal_calls_write_equal_bytes(self, write: Build, tmp_path: Path) -> None:
        """Neither the time nor the file's name nor old memory is in a shard."""
        batches = make_batches([3, 0, 40, 1], size=(30, 20))
        digests: list[list[str]] = [[], []]
        for number, found in enumerate(digests):
            folder = tmp_path / f"round-{number}"
            folder.mkdir()
            for codec in CODECS:
                shard = write(
                    image_fields(codec),
                    batches,
                    one_size=codec == "raw",
                    folder=folder,
                    stem=f"{codec}-{number}",
                )
                found.append(hashlib.sha256(shard.path.read_bytes()).hexdigest())
            time.sleep(1.1 * (number == 0))  # times in files have seconds
        assert digests[0] == digests[1]

    def test_never_overwrites(self, write: Build, module: Format, tmp_path: Path) -> None:
        path = tmp_path / f"shard.{module.EXTENSION}"
        path.write_bytes(b"mine")
        with pytest.raises(OutputError, match="exists"):
            write(image_fields(None), [])
        assert path.read_bytes() == b"mine"

    def test_missing_folder(self, write: Build, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="No such file or directory"):
            write(image_fields(None), [], folder=tmp_path / "nowhere")

    @pytest.mark.parametrize("batches", [0, 1, 3])
    def test_abort_leaves_nothing_open(self, module: Format, batches: int, tmp_path: Path) -> None:
        before = open_files()
        writer = module.Writer(tmp_path / "shard", image_fields(None), one_size=False)
        for batch in make_batches([4] * batches, size=(200, 100)):
            writer.add_batch(batch)
        assert open_files() != before
        writer.abort()
        assert open_files() == before
        writer.abort()  # twice does no harm
        assert [path.name for path in tmp_path.iterdir()] == ["shard"]  # no lock file or the like

    def test_close_leaves_nothing_open(self, write: Build, tmp_path: Path) -> None:
        before = open_files()
        write(image_fields(None), make_batches([4, 4]))
        assert open_files() == before
        assert len(list(tmp_path.iterdir())) == 1

    def test_refused_sync(
        self, module: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full NFS server accepts every write and reports the error only at fsync."""

        def refuse(fd: int) -> None:
            raise OSError(28, "No space left on device")

        before = open_files()
        writer = module.Writer(tmp_path / "shard", image_fields(None), one_size=False)
        writer.add_batch(make_batches([4])[0])
        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(OutputError, match=r"shard: No space left on device \(free some space"):
            writer.close()
        writer.abort()
        assert open_files() == before

    def test_missing_library_is_named(
        self, module: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not module.EXTRA:
            pytest.skip("the format needs no library")
        monkeypatch.setitem(sys.modules, module.EXTRA, None)
        with pytest.raises(MissingDependency, match=rf"needs {module.EXTRA}.*pip install"):
            module.Writer(tmp_path / "shard", image_fields(None), one_size=False)
        assert list(tmp_path.iterdir()) == []
