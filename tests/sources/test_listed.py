"""A list of paths is, whatever its order, the folder that holds those files."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packer.errors import PackerError, ReadError, SourceError
from packer.sources import listed, open_source
from packer.sources.folder import open_source as open_folder
from packer.types import Listing
from tests.fixtures import WriteFiles

#: As data sets are: odd names, litter, hidden and empty folders.
FILES = {
    b"cat/1.jpg": b"1", b"cat/2.PNG": b"22", b"cat/deep/er/3.jpg": b"333",
    b"dog/\xff\n 4.jpg": b"4444", b"dog/notes.txt": b"x", b"dog/.hidden.jpg": b"x",
    b".git/a.jpg": b"x", b".git/b/c.jpg": b"x", b"cat/@eaDir/1.jpg": b"x", b"empty/": b"",
    b"lost+found/": b"", b"top.jpg": b"5",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, write_files: WriteFiles) -> Path:
    return write_files(tmp_path / "pets", FILES)


def everything(folder: Path) -> list[bytes]:
    """What `find folder` prints, mixed up."""
    found = [os.fsencode(path) for path in [folder, *folder.rglob("*")]]
    random.Random(0).shuffle(found)
    return found


def source_of(folder: Path, paths: list[bytes]) -> listed.ListedSource:
    return listed.list_source(b"\0".join(paths) + b"\0", os.fsencode(folder), null=True)


def assert_equal(one: Listing, other: Listing) -> None:
    assert (one.paths, one.folders, one.ignored) == (other.paths, other.folders, other.ignored)
    assert one.ignored_examples == other.ignored_examples
    for name in ("sizes", "stamps", "inodes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_list_of_everything_is_the_folder(folder: Path) -> None:
    os.mkfifo(folder / "cat" / "pipe.jpg")
    (folder / "dog" / "link.jpg").symlink_to(folder / "cat" / "1.jpg")
    source = source_of(folder, everything(folder))
    assert_equal(source.scan(), open_folder(folder).scan())
    for path in source.scan().paths:
        assert source.read(path) == open_folder(folder).read(path)


def test_litter_of_a_recipe_is_ignored(folder: Path) -> None:
    found = source_of(folder, everything(folder)).scan({b"top.jpg"})
    assert found.ignored["litter"] == 1
    assert b"top.jpg" not in found.paths


@given(st.lists(st.sampled_from(sorted(FILES)), unique=True, min_size=1), st.randoms())
@settings(max_examples=40, deadline=None)
def test_order_and_spelling_mean_nothing(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[bytes], dice: random.Random
) -> None:
    top = os.fsencode(tmp_path_factory.getbasetemp())
    straight = listed.list_source(b"\0".join(top + b"/" + p for p in chosen), top, null=True)
    dice.shuffle(chosen)
    spelled = [top + dice.choice([b"/", b"//", b"/./", b"/cat/../"]) + path for path in chosen]
    assert listed.list_source(b"\0".join(spelled), top, null=True).paths == straight.paths


def test_lines_of_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, write_files: WriteFiles
) -> None:
    monkeypatch.chdir(folder)
    write_files(folder.parent, {b"some.LST": b"./cat/2.PNG\r\n\ncat/1.jpg"})
    source = open_source(folder.parent / "some.LST")
    assert source.scan().paths == [b"cat/1.jpg", b"cat/2.PNG"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (b"cat/1.jpg\ndog/../cat//1.jpg\n", "cat/1.jpg: twice in the list"),
        (b"cat/1.jpg\n../elsewhere/1.jpg\n", r"elsewhere/1.jpg: in the list of paths, but not in"),
        (b"cat/1.jpg\0dog/1.jpg\0", "--null"),
    ],
)
def test_lists_that_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SourceError) as caught:
        listed.list_source(content, os.fsencode(folder))
    assert said in str(caught.value)


def test_no_such_top_and_no_such_list(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        listed.list_source(b"a.jpg", os.fsencode(tmp_path / "gone"))
    with pytest.raises(SourceError, match=r"gone\.txt: cannot be read: No such file"):
        listed.read_list(tmp_path / "gone.txt")
    assert not listed.accepts(tmp_path / "gone.txt")


def test_a_missing_file_is_a_candidate(folder: Path) -> None:
    (folder / "dog" / "dangling.jpg").symlink_to("nowhere")
    lost = [b"dog/gone.jpg", b"new/gone.jpg", b"dog/dangling.jpg", b"top.jpg/x.jpg"]
    source = source_of(folder, [os.fsencode(folder) + b"/" + p for p in [*lost, b"cat/1.jpg"]])
    found = source.scan()
    assert found.paths == sorted([*lost, b"cat/1.jpg"])
    assert found.sizes.tolist() == [1, 0, 0, 0, 0]
    assert b"new" in found.folders
    why = dict.fromkeys(lost, "no such file when the list was read")
    assert found.missing == {**why, b"dog/dangling.jpg": "a link to nowhere that leads to no file"}


def test_what_vanishes_later_is_trouble_not_a_skip(folder: Path) -> None:
    source = source_of(folder, [os.fsencode(folder / "cat" / "1.jpg")])
    source.scan()
    (folder / "cat" / "1.jpg").unlink()
    with pytest.raises(ReadError, match="No such file"):
        source.read(b"cat/1.jpg")


def test_very_many_missing_files_are_a_wrong_folder(folder: Path) -> None:
    names = [os.fsencode(folder) + b"/cat/gone%d.jpg" % number for number in range(1001)]
    with pytest.raises(SourceError, match=r"1001 of 1001 listed files are not there.*gone0\.jpg"):
        source_of(folder, names).scan()
    assert len(source_of(folder, names[1:]).scan().paths) == 1000


def test_workers_do_not_get_the_list(folder: Path) -> None:
    names = [os.fsencode(folder) + b"/dog/%d.txt" % number for number in range(10_000)]
    source = source_of(folder, [*names, os.fsencode(folder / "cat" / "1.jpg")])
    source.scan()
    assert len(pickle.dumps(source)) < 1000
    assert pickle.loads(pickle.dumps(source)).read(b"cat/1.jpg") == b"1"


def test_a_folder_that_cannot_be_entered_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: bytes) -> os.stat_result:
        raise PermissionError(13, "Permission denied", path)

    source = source_of(folder, [os.fsencode(folder / "cat" / "1.jpg")])
    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(PackerError, match=r"cat/1\.jpg: cannot be read: Permission denied"):
        source.scan()


@pytest.mark.parametrize(
    ("paths", "single"),
    [
        ([b"pets/cat/1.jpg", b"pets/dog/2.jpg", b"pets/cat"], b"pets"),
        ([b"pets/cat/1.jpg", b"pets/2.jpg"], None),
        ([b"cat/1.jpg", b"cat/2.jpg"], None),
        ([b"pets/cat/1.jpg", b"more/dog/2.jpg"], None),
        ([b"train/cat/1.jpg", b"train/dog/2.jpg"], None),
    ],
)
def test_single_folder(paths: list[bytes], single: bytes | None) -> None:
    assert listed.ListedSource(b"/data", paths).single_folder() == single
