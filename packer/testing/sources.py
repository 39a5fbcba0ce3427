"""Conformance tests of a kind of source."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from packer import registry, sources
from packer.errors import ImageError, ReadError, SourceError
from packer.sources import Source
from packer.types import Listing

#: Files of a small source, by path. Content is not read by a scan, so it need not be a picture.
FILES: Mapping[bytes, bytes] = {
    b"cat/2.jpg": b"two",
    b"cat/1.JPEG": b"one",
    b"dog/a b.png": b"",
    b"dog/\xc3\xa9t\xc3\xa9.webp": b"summer" * 1000,
    b"cat/notes.doc": b"no picture",
    b"cat/.hidden.jpg": b"hidden",
    b"dog/litter.jpg": b"known litter",
}
_LITTER = (b"dog/litter.jpg",)
#: Bytes of a pickled source: one is sent with each batch of files.
_MAX_PICKLE = 4096


def read_in_child(source: Source, paths: Sequence[bytes]) -> list[bytes]:
    """Read files, in another process."""
    return [source.read(path) for path in paths]


class SourceSuite:
    """What every kind of source must do; subclass it, name it and write `make`.

    Attributes:
        NAME: Name of the kind, as in a recipe's `source:`.
        HAS_FOLDERS: Whether the kind keeps empty folders and the folders' names.
    """

    NAME: ClassVar[str] = ""
    HAS_FOLDERS: ClassVar[bool] = True

    def make(self, folder: Path, files: Mapping[bytes, bytes]) -> Path:
        """Make a source that holds these files.

        Args:
            folder: An empty folder to write to.
            files: Content by path; parts of a path are separated by "/".

        Returns:
            The location that a user would name.
        """
        raise NotImplementedError("write make(folder, files) in your subclass")

    @pytest.fixture
    def name(self) -> str:
        """Name of the kind."""
        return self.NAME

    @pytest.fixture
    def location(self, name: str, tmp_path: Path) -> Path:
        """Where a source with `FILES` is."""
        return self.make(tmp_path, FILES)

    @pytest.fixture
    def source(self, name: str, location: Path) -> Source:
        """The source, open."""
        opened: Source = sources.load_kind(name).open_source(location, b"")
        return opened

    @pytest.fixture
    def listing(self, source: Source) -> Listing:
        """What a scan of the source finds."""
        return source.scan(_LITTER)

    def test_is_offered(self, name: str) -> None:
        assert registry.is_offered("sources", name)
        assert isinstance(sources.load_kind(name).MAKES_FILES, bool)

    def test_accepts_its_own_and_nothing_else(
        self, name: str, location: Path, tmp_path: Path
    ) -> None:
        kind = sources.load_kind(name)
        assert kind.accepts(location)
        assert not kind.accepts(tmp_path / "nowhere")
        other = tmp_path / "other.bin"
        other.write_bytes(b"\x00\x01\x02")
        assert not kind.accepts(other)

    def test_is_found_by_its_location(self, name: str, location: Path) -> None:
        opened = sources.open_source(location)
        assert type(opened) is type(sources.load_kind(name).open_source(location, b""))

    def test_a_missing_location_is_refused(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(SourceError):
            source = sources.load_kind(name).open_source(tmp_path / "nowhere", b"")
            source.scan()

    def test_lists_candidates_sorted_by_path(self, listing: Listing) -> None:
        assert listing.paths == [
            b"cat/1.JPEG", b"cat/2.jpg", b"dog/a b.png", b"dog/\xc3\xa9t\xc3\xa9.webp",
        ]  # fmt: skip
        assert listing.sizes.tolist() == [len(FILES[path]) for path in listing.paths]
        for array in (listing.sizes, listing.stamps):
            assert array.dtype == np.int64
            assert len(array) == len(listing.paths)
        assert not listing.missing
        if self.HAS_FOLDERS:
            assert listing.folders == [b"cat", b"dog"]

    def test_counts_what_is_ignored(self, listing: Listing) -> None:
        assert listing.ignored == {"extension": 1, "hidden": 1, "litter": 1}
        assert listing.ignored_examples == {
            "extension": (b"cat/notes.doc",),
            "hidden": (b"cat/.hidden.jpg",),
            "litter": (b"dog/litter.jpg",),
        }

    def test_lists_the_same_as_a_folder(self, listing: Listing, tmp_path: Path) -> None:
        folder = tmp_path / "as a folder"
        for path, content in FILES.items():
            full = folder / os.fsdecode(path)
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(content)
        expected = sources.open_source(folder).scan(_LITTER)
        for attribute in ("paths", "ignored", "ignored_examples", "sidecars"):
            assert getattr(listing, attribute) == getattr(expected, attribute), attribute

    def test_every_scan_finds_the_same(self, source: Source, listing: Listing) -> None:
        again = source.scan(_LITTER)
        assert again.paths == listing.paths
        assert again.stamps.tolist() == listing.stamps.tolist()

    def test_reads_whole_files_in_any_order(self, source: Source, listing: Listing) -> None:
        for path in reversed(listing.paths):
            content = source.read(path)
            assert isinstance(content, bytes)
            assert content == FILES[path]

    def test_an_unknown_path_is_an_error_of_packer(self, source: Source) -> None:
        with pytest.raises((ReadError, ImageError)):
            source.read(b"cat/nothing.jpg")

    def test_pickles_into_a_few_bytes(self, source: Source, listing: Listing) -> None:
        source.read(listing.paths[0])
        assert len(ForkingPickler.dumps(source)) <= _MAX_PICKLE

    def test_reads_in_another_process(self, source: Source, listing: Listing) -> None:
        source.read(listing.paths[0])
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(read_in_child, (source, listing.paths))
            assert found == [FILES[path] for path in listing.paths]
            pool.close()
            pool.join()
