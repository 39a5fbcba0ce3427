from __future__ import annotations

import random

import pytest

from packer.sources._candidates import Candidates, is_hidden


@pytest.mark.parametrize(
    "path",
    [b"a/x.jpg", b"a/X.JPG", b"a/x.JPEG", b"a/x.Png", b"a/v1.2.tif", b"a.b/x.webp", b"\xff.gif"],
)
def test_images_are_wanted_in_any_case(path: bytes) -> None:
    """.JPG, .JPEG and .Png were left out without a word; all are candidates."""
    assert Candidates().wants(path)


@pytest.mark.parametrize(
    "path",
    [b"a/Thumbs.db", b"a/desktop.ini", b"a/RENAME2", b"v1.jpg/README", b"a/x.jpg ", b"a/xjpg"],
)
def test_other_files_are_ignored_and_counted(path: bytes) -> None:
    """Files of another extension, or of none, are counted."""
    found = Candidates()
    assert not found.wants(path)
    listing, _ = found.listing()
    assert listing.ignored == {"extension": 1}
    assert listing.ignored_examples == {"extension": (path,)}


def test_hidden_names() -> None:
    """AppleDouble files (._x.jpg) and .DS_Store are no pictures."""
    assert is_hidden(b".DS_Store", folder=False)
    assert is_hidden(b"._0001.jpg", folder=False)
    assert is_hidden(b"__MACOSX", folder=True)
    assert not is_hidden(b"__MACOSX", folder=False)
    assert not is_hidden(b"a.b", folder=True)


def test_litter_comes_before_the_extension() -> None:
    found = Candidates([b"a/RENAME2", b"a/x.jpg"])
    assert not found.wants(b"a/RENAME2")
    assert not found.wants(b"a/x.jpg")
    assert found.wants(b"b/x.jpg")
    assert found.listing()[0].ignored == {"litter": 2}


def test_a_listing_does_not_depend_on_the_order_of_finding() -> None:
    paths = [b"a/%d.jpg" % number for number in range(200)]
    others = [b"a/%d.txt" % number for number in range(200)]

    def listing_of(seed: int) -> tuple[list[bytes], list[int], list[int], object, object]:
        found = Candidates()
        mixed = random.Random(seed).sample(paths + others, 400)
        for path in mixed:
            if found.wants(path):
                found.add(path, len(path), int(path[2:-4]))
        listing, order = found.listing()
        added = [path for path in mixed if path.endswith(b".jpg")]
        assert [added[number] for number in order] == listing.paths
        return (
            listing.paths,
            listing.sizes.tolist(),
            listing.stamps.tolist(),
            listing.ignored,
            listing.ignored_examples,
        )

    expected = listing_of(0)
    assert all(listing_of(seed) == expected for seed in range(1, 5))
    found_paths, sizes, stamps, ignored, examples = expected
    assert found_paths == sorted(paths)
    assert sizes == [len(path) for path in sorted(paths)]
    assert stamps == [int(path[2:-4]) for path in sorted(paths)]
    assert ignored == {"extension": 200}
    assert examples == {"extension": tuple(sorted(others)[:5])}


def test_only_folders_of_one_or_two_parts_are_kept() -> None:
    found = Candidates()
    for folder in (b"train/b", b"train", b"train/b/c", b"a"):
        found.add_folder(folder)
    assert found.listing()[0].folders == [b"a", b"train", b"train/b"]


def test_it_is_told_now_and_then_how_many_there_are() -> None:
    heard: list[int] = []
    found = Candidates(report=heard.append)
    for number in range(2500):
        found.add(b"%d.jpg" % number, 1, 1)
    assert heard == [1000, 2000]


def test_files_that_are_ignored_are_reported_of_too() -> None:
    heard: list[int] = []
    found = Candidates(report=heard.append)
    found.add(b"1.jpg", 1, 1)
    for number in range(2500):
        assert not found.wants(b"%d.txt" % number)
    assert heard == [1, 1]
