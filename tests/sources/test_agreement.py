"""A folder, a tar of it, a zip of it and a list of its files are one source."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from packer import sources
from packer.errors import SourceError
from packer.sources import Source, listed
from packer.types import Listing
from tests.fixtures import PackFolder, WriteFiles

#: Content of a folder → the folder's listing, once all kinds of source agree on it.
Agreed = Callable[..., Listing]
MANIFEST = b'{\n "packer": "packer",\n "version": 1,\n "name": "x"\n}\n'


def list_of(folder: Path) -> Source:
    """What `find folder` prints, as a source."""
    paths = [os.fsencode(path) for path in sorted(folder.rglob("*"), reverse=True)]
    return listed.list_source(b"\0".join(paths), os.fsencode(folder), null=True)


def everything(listing: Listing) -> dict[str, object]:
    """All that sources must agree on, as values that compare."""
    found: dict[str, object] = {
        name: getattr(listing, name)
        for name in ("paths", "folders", "ignored", "ignored_examples", "missing", "sidecars")
    }
    found["sizes"] = listing.sizes.tolist()
    if listing.numbers is not None:
        found["numbers"] = listing.numbers.values.tolist()
        for name in ("invalid", "alone", "shared"):
            found[name] = getattr(listing.numbers, name)
    return found


@pytest.fixture
def agreed(
    tmp_path: Path, write_files: WriteFiles, make_tar: PackFolder, make_zip: PackFolder
) -> Agreed:
    def scan(files: Mapping[bytes, bytes], links: Mapping[str, str] | None = None) -> Listing:
        folder = write_files(tmp_path / "tree", files)
        for name, target in (links or {}).items():
            (folder / name).symlink_to(target)
        opened = [
            sources.open_source(folder),
            sources.open_source(make_tar(folder, tmp_path / "x.tar")),
            sources.open_source(make_zip(folder, tmp_path / "x.zip")),
            list_of(folder),
        ]
        listings = [source.scan() for source in opened]
        for source, listing in zip(opened, listings, strict=True):
            assert everything(listing) == everything(listings[0]), type(source)
            contents = [source.read(p) for p in listing.paths if p not in listing.missing]
            assert contents == [
                opened[0].read(p) for p in listing.paths if p not in listing.missing
            ]
            again = source.scan()
            assert everything(again) == everything(listing)
        return listings[0]

    return scan


def test_links_that_lead_nowhere_are_missing_pictures(agreed: Agreed) -> None:
    links = {
        "a/gone.jpg": "nowhere.jpg",
        "a/annex.JPG": "../.git/annex/objects/Xk/9q/SHA256E-s9--ab.jpg/SHA256E-s9--ab.jpg",
        "a/dvc.png": "/cache/.dvc/cache/files/md5/ab/cdef",
        "a/circle.jpg": "circle.jpg",
        "a/one.jpg": "two.jpg",
        "a/two.jpg": "one.jpg",
        "a/through.jpg": "1.jpg/x",
        "a/gone.txt": "nowhere.txt",
        "folder": "nowhere",
        "a/there.jpg": "1.jpg",
    }
    listing = agreed({b"a/1.jpg": b"one", b"b/2.jpg": b"two"}, links)
    lost = {f"a/{name}".encode() for name in ("gone.jpg", "annex.JPG", "dvc.png", "circle.jpg")}
    lost |= {b"a/one.jpg", b"a/two.jpg", b"a/through.jpg"}
    assert listing.missing.keys() == lost
    assert set(listing.paths) == lost | {b"a/1.jpg", b"a/there.jpg", b"b/2.jpg"}
    assert listing.missing[b"a/gone.jpg"] == "a link to nowhere.jpg that leads to no file"
    assert listing.missing[b"a/annex.JPG"].startswith("git-annex has not fetched it: git annex get")
    assert listing.missing[b"a/dvc.png"].startswith("DVC has not fetched it: dvc pull")
    assert listing.ignored == {"broken-link": 2}
    assert listing.ignored_examples["broken-link"] == (b"a/gone.txt", b"folder")


def test_dvc_pointers_without_their_picture_are_missing_pictures(agreed: Agreed) -> None:
    files = {
        b"a/1.jpg": b"one", b"a/1.jpg.dvc": b"outs:", b"a/2.jpg.dvc": b"outs:",
        b"b/3.PNG.dvc": b"outs:", b"b/4.jpg": b"four", b"model.pkl.dvc": b"outs:",
        b"test.dvc": b"outs:", b"a.dvc": b"outs:",
    }  # fmt: skip
    listing = agreed(files)
    assert listing.paths == [b"a/1.jpg", b"a/2.jpg", b"b/3.PNG", b"b/4.jpg"]
    assert listing.missing == dict.fromkeys(
        [b"a/2.jpg", b"b/3.PNG"], "DVC has not fetched it: dvc pull"
    )
    assert [(s.files, s.example) for s in listing.sidecars.values()] == [(1, b"test.dvc")]


def test_packs_are_passed_over(agreed: Agreed) -> None:
    files = {
        b"cat/1.jpg": b"one", b"dog/2.jpg": b"two",
        b"done/manifest.json": MANIFEST, b"done/train-000000.tar": b"", b"done/train.index": b"",
        b"dog/old-pack/manifest.json": MANIFEST, b"dog/old-pack/sub/x.jpg": b"no sample",
        b"begun/.packer/plan.json": b"{}", b"begun/train-000000.tar": b"",
        b"begun/x.jpg": b"no sample", b"begun/x.txt": b"",
    }  # fmt: skip
    listing = agreed(files)
    assert listing.paths == [b"cat/1.jpg", b"dog/2.jpg"]
    assert listing.folders == [b"cat", b"dog"]
    assert listing.ignored == {"pack": 3}
    assert listing.ignored_examples == {"pack": (b"begun", b"dog/old-pack", b"done")}
    assert listing.sidecars == {}


def test_a_manifest_of_another_program_is_an_ordinary_file(agreed: Agreed) -> None:
    files = {
        b"web/manifest.json": b'{"name": "My app", "packer": "none"}', b"web/1.jpg": b"1",
        b"empty/manifest.json": b"", b"empty/1.jpg": b"1",
        b"folder/manifest.json/1.jpg": b"1",
        b"hashi/.packer.d/x": b"", b"hashi/1.jpg": b"1", b"file/.packer": b"", b"file/1.jpg": b"1",
    }  # fmt: skip
    listing = agreed(files, {"folder/1.jpg": "../web/1.jpg", "manifest.json": "nowhere"})
    assert "pack" not in listing.ignored
    assert listing.folders == [
        *(b"empty", b"file", b"folder", b"folder/manifest.json", b"hashi", b"web")
    ]


@pytest.mark.parametrize("around", [b"", b"data/", b"ILSVRC/Data/"])
def test_a_folder_around_the_splits_is_entered(agreed: Agreed, around: bytes) -> None:
    """Also where an archive's single top folder was entered before: tar cf x.tar data."""
    files = {
        b"data/Train/cat/1.jpg": b"1", b"data/Train/dog/2.jpg": b"2", b"data/val/cat/3.jpg": b"3",
        b"data/val/cat/3.cls": b"0", b"data/Train/cat/1.cls": b"0", b"data/Train/cat/1.txt": b"",
        b"data/Train/dog/2.cls": b"1", b"data/Train/deep/er/": b"",
    }  # fmt: skip
    listing = agreed({around + path: content for path, content in files.items()})
    assert listing.top == around + b"data"
    assert listing.paths == [b"Train/cat/1.jpg", b"Train/dog/2.jpg", b"val/cat/3.jpg"]
    assert listing.folders == [
        *(b"Train", b"Train/cat", b"Train/deep", b"Train/dog", b"val", b"val/cat")
    ]
    assert listing.numbers is not None
    assert listing.numbers.values.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "files",
    [
        [b"data/train/cat/1.jpg", b"more/1.jpg"],  # pictures beside it
        [b"data/train/cat/1.jpg", b"data/1.jpg"],
        [b"data/train/cat/1.jpg", b"data/extra/1.jpg", b"other/"],
        [b"data/train/1.jpg", b"other/"],  # perhaps classes: data with a folder train
        [b"train/train/cat/1.jpg", b"other/"],
        [b"data/test/1.jpg", b"data/val/1.jpg", b"other/"],
    ],
)
def test_other_folders_are_not_entered(agreed: Agreed, files: list[bytes]) -> None:
    listing = agreed(dict.fromkeys(files, b""))
    assert listing.paths == sorted(path for path in files if not path.endswith(b"/"))


def test_numbers_of_classes(agreed: Agreed) -> None:
    files = {
        b"a/0.jpg": b"", b"a/0.cls": b"7", b"a/1.png": b"", b"a/1.cls": b" 12\n",
        b"a/2.jpg": b"", b"a/3.jpg": b"", b"a/3.cls": b"-1", b"a/4.jpg": b"", b"a/4.cls": b"",
        b"a/5.jpg": b"", b"a/5.CLS": b"5", b"a/6.jpg": b"", b"a/6.seg.png": b"", b"a/6.cls": b"6",
        b"a/v.1.jpg": b"", b"a/v.1.cls": b"1", b"a/v.2.jpg": b"", b"a/v.2.cls": b"2",
        b"a/9.cls": b"9", b"a/big.jpg": b"", b"a/big.cls": b"1" * 100, b"b/0.jpg": b"",
    }  # fmt: skip
    listing = agreed(files)
    assert listing.numbers is not None
    values = dict(zip(listing.paths, listing.numbers.values.tolist(), strict=True))
    assert values == {
        b"a/0.jpg": 7, b"a/1.png": 12, b"a/2.jpg": -1, b"a/3.jpg": -1, b"a/4.jpg": -1,
        b"a/5.jpg": 5, b"a/6.jpg": 6, b"a/6.seg.png": 6, b"a/v.1.jpg": 1, b"a/v.2.jpg": 2,
        b"a/big.jpg": -1, b"b/0.jpg": -1,
    }  # fmt: skip
    assert listing.numbers.invalid == (b"a/3.cls", b"a/4.cls", b"a/big.cls")
    assert listing.numbers.alone == (b"a/9.cls",)
    assert listing.numbers.shared == (b"a/6.seg.png",)


def test_files_that_may_be_labels_are_counted(agreed: Agreed) -> None:
    files = {
        b"cat/1.jpg": b"", b"cat/2.jpg": b"", b"dog/3.jpg": b"",
        b"cat/1.txt": b"", b"cat/2.txt": b"", b"dog/1.txt": b"", b"README.txt": b"",
        b"cat/1.jpg.json": b"", b"dog/metadata.jsonl": b"", b"cat/metadata.csv": b"",
        b"labels/1.txt": b"", b"labels/2.txt": b"", b"annotations/train.json": b"",
        b"_annotations.coco.json": b"", b"Annotations/1.xml": b"", b"classes.csv": b"",
        b"dog/notes.md": b"", b"cat/Thumbs.db": b"", b"package.json": b"",
    }  # fmt: skip
    listing = agreed(files)
    assert {kind: (s.files, s.example) for kind, s in listing.sidecars.items()} == {
        "beside .json": (1, b"cat/1.jpg.json"),
        "beside .txt": (2, b"cat/1.txt"),
        "coco": (2, b"_annotations.coco.json"),
        "metadata": (2, b"cat/metadata.csv"),
        "table": (1, b"classes.csv"),
        "voc": (1, b"Annotations/1.xml"),
        "yolo": (2, b"labels/1.txt"),
    }


@pytest.mark.parametrize("begun", [b"pack/.packer/plan.json", b"pack/manifest.json", b"pack/"])
def test_the_output_is_no_part_of_the_source(
    tmp_path: Path, write_files: WriteFiles, begun: bytes
) -> None:
    """Whatever its state: so the listing is that of the first run."""
    folder = write_files(tmp_path / "tree", {b"a/1.jpg": b"1", b"b/2.jpg": b"2"})
    out = folder / "pack"
    before = everything(sources.open_source(folder).scan((), None, out))
    write_files(folder, {begun: MANIFEST})
    for source in (sources.open_source(folder), list_of(folder)):
        assert everything(source.scan((), None, out)) == before
    (tmp_path / "link").symlink_to(folder)
    assert everything(sources.open_source(folder).scan((), None, tmp_path / "link/pack")) == before


@pytest.mark.parametrize("part", [b"manifest.json", b".packer/plan.json"])
def test_a_pack_is_no_source(
    tmp_path: Path, write_files: WriteFiles, make_tar: PackFolder, part: bytes
) -> None:
    pack = write_files(tmp_path / "pack", {part: MANIFEST, b"train-000000.tar": b"", b"x.jpg": b""})
    for source in (
        sources.open_source(pack),
        sources.open_source(make_tar(pack, tmp_path / "x.tar")),
        list_of(pack),
    ):
        with pytest.raises(SourceError, match=r"is a pack that packer made, not a source"):
            source.scan()


def test_times_beyond_int64_are_the_nearest_that_fit(
    tmp_path: Path, write_files: WriteFiles
) -> None:
    """After 2262 or before 1678. XFS and ext4 hold some of them, tmpfs all."""
    folder = write_files(tmp_path / "tree", {b"a/%d.jpg" % n: b"x" for n in range(3)})
    late, early = 1 << 34, -(1 << 31)  # the years 2514 and 1901, in seconds
    os.utime(folder / "a" / "1.jpg", (late, late))
    os.utime(folder / "a" / "2.jpg", (early, early))
    held = (folder / "a" / "1.jpg").stat().st_mtime_ns
    for source in (sources.open_source(folder), list_of(folder)):
        listing = source.scan()
        assert listing.stamps.dtype == np.dtype("i8")
        assert listing.stamps.tolist()[1:] == [
            min(held, 2**63 - 1), (folder / "a" / "2.jpg").stat().st_mtime_ns,
        ]  # fmt: skip
        assert [source.read(path) for path in listing.paths] == [b"x"] * 3


def test_a_scan_of_a_flat_folder_keeps_no_entries(tmp_path: Path, write_files: WriteFiles) -> None:
    """Ten thousand files cost what a listing holds of them, not what the system says of each."""
    write_files(tmp_path / "tree", {b"%05d.jpg" % n: b"" for n in range(10_000)})
    script = (
        "import sys, tracemalloc; from pathlib import Path; from packer import sources\n"
        "source = sources.open_source(Path(sys.argv[1])); source.scan(); tracemalloc.start()\n"
        "listing = source.scan(); print(tracemalloc.get_traced_memory()[1] // len(listing.paths))"
    )
    command = [sys.executable, "-c", script, os.fspath(tmp_path / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 350  # bytes a file: its path and columns, and what sorting takes
