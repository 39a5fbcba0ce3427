from __future__ import annotations

import io
import pickle
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from packer import recipe, registry, sources
from packer.errors import ImageError, OutputError
from packer.reporting import Reporter
from packer.sample import drawings as _drawings
from packer.sources import drawn
from packer.types import Listing

LITTER = (b"008.heart/RENAME2",)


@cache
def sample() -> tuple[drawn.DrawnSource, Listing]:
    source = drawn.open_source(Path("sample"))
    return source, source.scan(LITTER)


def image_of(path: bytes) -> Image.Image:
    return Image.open(io.BytesIO(sample()[0].read(path)))


def test_it_is_laid_out_as_caltech256_is() -> None:
    listing = sample()[1]
    assert len(listing.paths) == 300
    assert listing.paths == sorted(listing.paths)
    assert len(listing.folders) == 12
    assert listing.ignored == {"litter": 1}
    names = [folder.decode() for folder in listing.folders]
    assert names[:2] == ["001.ball", "002.ring"]
    for path, size in zip(listing.paths, listing.sizes, strict=True):
        folder, name = path.decode().split("/")
        assert folder in names
        assert name.startswith(folder[:3] + "_0")
        assert size == len(sample()[0].read(path))


def test_sizes_are_as_varied_as_photos() -> None:
    sides = [max(image_of(path).size) for path in sample()[1].paths[::5]] + [
        max(image_of(path).size) for path in (b"001.ball/001_0004.jpg",)
    ]
    assert min(sides) < 250 and 500 < sorted(sides)[-5] < 1000 and max(sides) == 2000
    middle = float(np.median(sample()[1].sizes))
    assert 10_000 < middle < 60_000


def test_it_has_what_data_sets_have() -> None:
    assert image_of(b"002.ring/002_0007.jpg").mode == "L"
    cmyk = image_of(b"005.star/005_0011.jpg")
    assert (cmyk.mode, "adobe" in cmyk.info) == ("CMYK", True)
    assert image_of(b"007.moon/007_0003.png").format == "PNG"
    turned = image_of(b"003.box/003_0005.jpg")
    assert turned.getexif() == {0x0112: 6}
    with pytest.raises(OSError, match="truncated"):
        image_of(b"010.leaf/010_0009.jpg").load()
    for path in sample()[1].paths[1::9]:
        if path != b"010.leaf/010_0009.jpg":
            image_of(path).load()


def test_the_turned_picture_stands_upright_once_it_is_turned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The orientation must be applied: tried with a picture of known corners in place of the drawn
    one.
    """
    corners = np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [250, 250, 250]]], np.uint8)
    known = corners.repeat(40, axis=0).repeat(60, axis=1)
    monkeypatch.setattr(drawn, "draw", lambda thing, width, height, dice: known)
    data = drawn._file.__wrapped__(b"003.box/003_0005.jpg")
    stored = Image.open(io.BytesIO(data))
    assert stored.size == (80, 120)
    upright = np.asarray(ImageOps.exif_transpose(stored)).astype(int)
    assert np.abs(upright[20::40, 30::60] - corners).max() < 12


def test_any_process_draws_the_same_and_none_carries_it() -> None:
    source, listing = sample()
    pickled = pickle.dumps(source)
    assert len(pickled) < 200
    chosen = listing.paths[::60]
    with get_context("spawn").Pool(1) as pool:
        again = pool.map(pickle.loads(pickled).read, chosen)
    assert again == [source.read(path) for path in chosen]


def test_only_its_recipe_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not drawn.accepts(Path("sample"))
    known = recipe.load("sample")
    assert isinstance(known.open(None), drawn.DrawnSource)
    assert known.images == len(sample()[1].paths)
    assert known.classes == len(sample()[1].folders)
    assert known.litter_paths == frozenset(LITTER)


def test_unknown_paths_are_not_drawn() -> None:
    with pytest.raises(ImageError, match="no such file"):
        sample()[0].read(b"001.ball/001_0026.jpg")


def test_written_out_it_is_the_same_source(tmp_path: Path) -> None:
    registry.load("sources", "drawn").write_tree(tmp_path / "s")
    folder = sources.open_source(tmp_path / "s")
    source, listing = sample()
    written = folder.scan(LITTER)
    assert written.paths == listing.paths
    assert written.sizes.tolist() == listing.sizes.tolist()
    assert (written.folders, written.ignored) == (listing.folders, listing.ignored)
    assert all(folder.read(path) == source.read(path) for path in listing.paths)
    # Again: what is there stays, what is not there comes, what differs is not overwritten.
    kept = tmp_path / "s" / "001.ball" / "001_0001.jpg"
    before = kept.stat()
    (tmp_path / "s" / "001.ball" / "001_0002.jpg").unlink()
    drawn.write_tree(tmp_path / "s")
    assert len(folder.scan(LITTER).paths) == 300
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    kept.write_bytes(b"mine")
    with pytest.raises(OutputError, match="already there with other content"):
        drawn.write_tree(tmp_path / "s")
    assert kept.read_bytes() == b"mine"


class Told(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_it_is_drawn_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, listing = sample()  # drawn already by this process: this test draws nothing
    told, first = Told(), drawn.DrawnSource()
    first.prepare(tmp_path, told)
    (kept,) = tmp_path.iterdir()
    assert told.notes[0] == "drawing the sample's 300 pictures, once"
    assert told.notes[1].endswith(f"kept for the next time: {kept}")
    before = kept.stat()

    monkeypatch.setattr(drawn, "_file", None)  # drawing anything would fail
    told, second = Told(), drawn.DrawnSource()
    second.prepare(tmp_path, told)
    assert told.notes == []
    again = second.scan(LITTER)
    assert (again.paths, again.sizes.tolist()) == (listing.paths, listing.sizes.tolist())
    monkeypatch.undo()
    assert all(second.read(path) == source.read(path) for path in listing.paths)
    assert pickle.loads(pickle.dumps(second)).read(listing.paths[7]) == source.read(
        listing.paths[7]
    )
    assert kept.stat() == before

    kept.unlink()  # while it is in use
    gone: drawn.DrawnSource = pickle.loads(pickle.dumps(second))
    _drawings.kept.cache_clear()
    assert gone.read(listing.paths[7]) == source.read(listing.paths[7])


def test_two_processes_that_draw_at_once_keep_one_file(tmp_path: Path) -> None:
    sample()
    with get_context("fork").Pool(2) as pool:
        pool.map(prepare, [tmp_path] * 2)
    (kept,) = tmp_path.iterdir()
    assert len(_drawings.kept(kept)) == 301


def prepare(folder: Path) -> None:
    drawn.DrawnSource().prepare(folder, Told())


def test_without_a_place_it_is_drawn_and_that_is_told(tmp_path: Path) -> None:
    source, listing = sample()
    (tmp_path / "file").write_text("")
    for folder, said in ((tmp_path / "file", "not kept, the next time draws"), (None, "drew them")):
        told, made = Told(), drawn.DrawnSource()
        made.prepare(folder, told)
        assert said in told.notes[1]
        assert made.read(listing.paths[3]) == source.read(listing.paths[3])
