from __future__ import annotations

import pytest

from packer.errors import SourceError
from packer.sources._member import Member
from packer.sources._tree import Tree
from packer.types import Listing


def file(name: bytes, size: int = 1) -> Member:
    return Member(name, "file", start=size * 100, stored=size, size=size)


def listing_of(*members: Member, root: bytes = b"") -> Listing:
    return Tree(members).listing(root, ())[0]


def test_places_follow_the_sorted_paths() -> None:
    listing, places = Tree([file(b"b/1.jpg", 2), file(b"a/2.jpg", 3)]).listing(b"", ())
    assert listing.paths == [b"a/2.jpg", b"b/1.jpg"]
    assert listing.sizes.tolist() == [3, 2]
    assert places[:, 0].tolist() == [300, 200]


def test_the_last_of_two_members_of_a_name_counts() -> None:
    """As when tar unpacks them."""
    listing = listing_of(file(b"a/1.jpg", 1), file(b"b/1.jpg", 5), file(b"./a//1.jpg", 7))
    assert listing.paths == [b"a/1.jpg", b"b/1.jpg"]
    assert listing.sizes.tolist() == [7, 5]
    again = listing_of(file(b"a/x/1.jpg"), file(b"b/1.jpg"), Member(b"a/", "folder"))
    assert again.paths == [b"a/x/1.jpg", b"b/1.jpg"]


def test_names_cannot_lead_outside() -> None:
    listing = listing_of(file(b"/abs/1.jpg"), file(b"../../up/2.jpg"), file(b"a/../b/3.jpg"))
    assert listing.paths == [b"abs/1.jpg", b"b/3.jpg", b"up/2.jpg"]


def link(name: bytes, target: bytes) -> Member:
    return Member(name, "symlink", target=target)


def test_links_on_the_way_to_one_file_are_counted_together() -> None:
    """As Linux counts them. Each link here follows the one before it three times."""
    members = [file(b"d/1.jpg"), link(b"l0", b"d/../d/../d")]
    members += [link(b"l%d" % n, b"/..".join([b"l%d" % (n - 1)] * 3)) for n in range(1, 40)]
    members += [link(b"last.jpg", b"l39/1.jpg"), link(b"first.jpg", b"l1/1.jpg")]
    found = listing_of(*members)
    assert b"first.jpg" in found.paths
    assert b"last.jpg" in found.missing


def test_folders_linked_among_siblings_end() -> None:
    """There are 10^18 ways through 20 of them, none a circle."""
    names = [b"f%02d" % number for number in range(20)]
    members = [file(name + b"/1.jpg") for name in names]
    members += [
        link(b"%s/to-%s" % (one, other), b"../" + other)
        for one in names
        for other in names
        if one != other
    ]
    with pytest.raises(SourceError, match="lead through one another in more than 10,000 ways"):
        listing_of(*members)


def test_many_links_to_folders_that_do_not_nest_are_followed() -> None:
    members = [file(b"store/%d.jpg" % number) for number in range(3)]
    members += [link(b"class%d/all" % number, b"../store") for number in range(11_000)]
    assert len(listing_of(*members).paths) == 3 + 3 * 11_000


def test_names_that_no_system_takes_are_refused() -> None:
    with pytest.raises(SourceError, match="a member's name has 200,005 bytes"):
        listing_of(file(b"a/" * 100_000 + b"1.jpg"))
    deep = b"a/" * 2000 + b"1.jpg"
    assert listing_of(file(deep), file(b"b/1.jpg")).paths == [deep, b"b/1.jpg"]


def test_one_top_folder_is_entered() -> None:
    assert listing_of(file(b"mydata/a/1.jpg")).paths == [b"a/1.jpg"]
    assert listing_of(file(b"mydata/a/1.jpg"), file(b"._mydata")).paths == [b"a/1.jpg"]
    assert listing_of(file(b"mydata/a/1.jpg"), file(b"mydata/README")).ignored == {"extension": 1}


def test_one_top_folder_is_not_entered_if_it_is_a_class_or_split() -> None:
    for members in (
        [file(b"train/a/1.jpg")],  # a split
        [file(b"cats/1.jpg")],  # a class
        [file(b"mydata/a/1.jpg"), file(b"README")],  # something beside it
        [file(b"a/1.jpg"), Member(b"empty", "folder")],
    ):
        assert listing_of(*members).paths == [members[0].name]


def test_a_recipes_root_is_entered_whatever_lies_beside() -> None:
    members = [file(b"up/root/a/1.jpg"), file(b"other/b.jpg"), file(b"up/c.jpg")]
    assert listing_of(*members, root=b"up/root").paths == [b"a/1.jpg"]
    assert listing_of(*members, root=b"none").paths == sorted(m.name for m in members)


def test_links_are_followed_within_the_archive() -> None:
    def link(name: bytes, target: bytes) -> Member:
        return Member(name, "symlink", target=target)

    listing = listing_of(
        file(b"real/1.jpg", 4),
        link(b"a/rel.jpg", b"../real/1.jpg"),
        link(b"a/twice.jpg", b"./rel.jpg"),
        link(b"linked", b"real"),
        link(b"a/through.jpg", b"../linked/1.jpg"),
        link(b"a/up", b".."),
        link(b"a/abs.jpg", b"/etc/passwd"),
        link(b"a/out.jpg", b"../../x.jpg"),
        link(b"a/gone.jpg", b"nowhere.jpg"),
        link(b"a/circle.jpg", b"circle.jpg"),
        link(b"a/file.jpg", b"../real/1.jpg/x"),
    )
    there = [path for path in listing.paths if path not in listing.missing]
    assert there == [
        b"a/rel.jpg",
        b"a/through.jpg",
        b"a/twice.jpg",
        b"linked/1.jpg",
        b"real/1.jpg",
    ]
    missing = [b"a/abs.jpg", b"a/circle.jpg", b"a/file.jpg", b"a/gone.jpg", b"a/out.jpg"]
    assert sorted(listing.missing) == missing
    sizes = dict(zip(listing.paths, listing.sizes.tolist(), strict=True))
    assert {path: sizes[path] for path in there} == dict.fromkeys(there, 4)
    assert {path: sizes[path] for path in missing} == dict.fromkeys(missing, 0)
    assert listing.ignored == {"link-loop": 1}


def test_hard_links_share_their_files_place() -> None:
    hard = Member(b"b/2.jpg", "hardlink", target=b"./a/1.jpg")
    lost = Member(b"b/3.jpg", "hardlink", target=b"a/none.jpg")
    listing, places = Tree([file(b"a/1.jpg", 9), hard, lost]).listing(b"", ())
    assert listing.paths == [b"a/1.jpg", b"b/2.jpg", b"b/3.jpg"]
    assert places[0].tolist() == places[1].tolist()
    assert list(listing.missing) == [b"b/3.jpg"]
    assert listing.ignored == {}
