import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import ConfigError, SourceError
from packer.packing.planning.labels import LEFT_OUT, Labelling, label_candidates, split_by_path
from packer.types import ClassNumbers, Listing


def _listing(*paths: str, folders: tuple[str, ...] = ()) -> Listing:
    raw = sorted(os.fsencode(path) for path in paths)
    found = {b"/".join(p.split(b"/")[:n]) for p in raw for n in (1, 2) if p.count(b"/") >= n}
    found |= {os.fsencode(folder) for folder in folders}
    return Listing(raw, np.ones(len(raw), "<i8"), np.zeros(len(raw), "<i8"), sorted(found))


def _numbered(values: dict[str, int], folders: tuple[str, ...] = ()) -> Listing:
    """Pictures with what their `.cls` files say; -1: they have none."""
    listing = _listing(*values, folders=folders)
    found = [values[path.decode()] for path in listing.paths]
    return dataclasses.replace(listing, numbers=ClassNumbers(np.array(found, "<i8")))


def _by_path(listing: Listing, labelling: Labelling) -> dict[str, tuple[str, int]]:
    return {
        os.fsdecode(path): ("" if split == LEFT_OUT else labelling.splits[split], int(label))
        for path, split, label in zip(listing.paths, labelling.split, labelling.label, strict=True)
    }


def test_classes_are_numbered_as_image_folder_does() -> None:
    listing = _listing("b/1.jpg", "a/deep/er/2.jpg", "Z/3.jpg", "é/4.jpg", folders=("empty",))
    labelling = label_candidates(listing)
    assert labelling.classes == tuple(sorted(["a", "b", "Z", "é", "empty"]))
    assert _by_path(listing, labelling) == {
        "Z/3.jpg": ("train", 0),
        "a/deep/er/2.jpg": ("train", 1),
        "b/1.jpg": ("train", 2),
        "é/4.jpg": ("train", 4),
    }


def test_split_folders_share_trains_classes() -> None:
    """train and val got different class numbers elsewhere: val lacks b, or has it empty; c and d
    keep their numbers.
    """
    for folders in ((), ("val/b",)):
        listing = _listing(
            "train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "train/d/1.jpg",
            "val/a/1.jpg", "val/c/1.jpg", "val/d/1.jpg", folders=folders,
        )  # fmt: skip
        labelling = label_candidates(listing)
        assert labelling.splits == ("train", "val")
        assert labelling.classes == ("a", "b", "c", "d")
        found = _by_path(listing, labelling)
        assert found["val/c/1.jpg"] == ("val", 2)
        assert found["val/d/1.jpg"] == ("val", 3)
        assert labelling.warnings == ("val has no picture of 1 class: b",)


def test_a_class_that_train_lacks_is_an_error_with_a_way_out() -> None:
    listing = _listing("train/a/1.jpg", "val/a/1.jpg", "val/new/1.jpg")
    with pytest.raises(SourceError, match=r"'new' is in val but not in train.*--exclude-class new"):
        label_candidates(listing)
    labelling = label_candidates(listing, exclude=["new"])
    assert labelling.classes == ("a",)
    assert labelling.left_out == {"excluded-class": 1}


def test_flat_test_split_has_no_labels() -> None:
    listing = _listing("train/a/1.jpg", "test/1.jpg", "test/2.jpg")
    found = _by_path(listing, label_candidates(listing))
    assert found["test/1.jpg"] == ("test", -1)
    assert found["train/a/1.jpg"] == ("train", 0)


@pytest.mark.parametrize("name", ["val", "valid", "validation", "VAL", "Val", "Validation"])
def test_names_of_the_validation_split(name: str) -> None:
    assert label_candidates(_listing("train/a/1.jpg", f"{name}/a/1.jpg")).splits == ("train", "val")


def test_two_validation_folders_are_refused() -> None:
    with pytest.raises(SourceError, match="two top folders stand for the same split"):
        label_candidates(_listing("val/a/1.jpg", "valid/a/1.jpg"))


def test_a_class_named_train_beside_others_is_a_class() -> None:
    labelling = label_candidates(_listing("train/1.jpg", "plane/1.jpg"))
    assert labelling.classes == ("plane", "train")
    assert labelling.splits == ("train",)


def test_flat_folder_has_no_labels_and_strays_beside_classes_are_left_out() -> None:
    flat = label_candidates(_listing("1.jpg", "2.jpg"))
    assert flat.classes == ()
    assert flat.label.tolist() == [-1, -1]
    assert flat.split.tolist() == [0, 0]
    listing = _listing("1.jpg", "a/1.jpg")
    mixed = label_candidates(listing)
    assert _by_path(listing, mixed)["1.jpg"][0] == ""
    assert mixed.left_out == {"outside-class": 1}


def test_excluding_the_last_class_moves_no_number() -> None:
    """Caltech-256's last class, 257.clutter, is often left out."""
    listing = _listing("001.a/1.jpg", "002.b/1.jpg", "257.clutter/1.jpg")
    labelling = label_candidates(listing, exclude=["257.clutter"])
    assert labelling.classes == ("001.a", "002.b")
    assert labelling.label.tolist()[:2] == [0, 1]
    with pytest.raises(ConfigError, match=r"'257.cluter'.*did you mean '257.clutter'"):
        label_candidates(listing, exclude=["257.cluter"])


def test_a_split_source_refuses_another_split() -> None:
    listing = _listing("train/a/1.jpg", "val/a/1.jpg")
    for text in ("none", "train=0.5,val=0.5"):
        with pytest.raises(ConfigError, match="split already"):
            label_candidates(listing, split=text)


@given(
    st.sets(st.binary(min_size=1, max_size=8), min_size=1, max_size=60),
    st.sets(st.binary(min_size=1, max_size=8), max_size=60),
    st.integers(0, 5),
)
def test_adding_files_moves_no_other(some: set[bytes], more: set[bytes], seed: int) -> None:
    before = dict(zip(sorted(some), split_by_path(sorted(some), (0.6, 0.4), seed), strict=True))
    both = sorted(some | more)
    after = dict(zip(both, split_by_path(both, (0.6, 0.4), seed), strict=True))
    assert all(after[path] == split for path, split in before.items())


def test_fractions_hold_approximately_and_empty_classes_are_named() -> None:
    paths = [f"c{number % 10}/{number}.jpg" for number in range(5000)]
    listing = _listing(*paths, "lonely/1.jpg")
    labelling = label_candidates(listing, split="train=0.8,val=0.2")
    share = float((labelling.split == 1).mean())
    assert abs(share - 0.2) < 4 * (0.2 * 0.8 / 5000) ** 0.5  # four standard errors
    assert len(labelling.warnings) == 1
    assert "has no picture of 1 class: lonely" in labelling.warnings[0]
    other = label_candidates(listing, split="train=0.8,val=0.2", split_seed=1)
    assert (labelling.split != other.split).any()


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (("train", "val", "test"), ("train", "val", "test")),
        (("Training", "VALIDATION", "Testing"), ("train", "val", "test")),
        (("TRAIN",), ("train",)),
    ],
)
def test_splits_are_named_in_any_case(folders: tuple[str, ...], names: tuple[str, ...]) -> None:
    labelling = label_candidates(_listing(*(f"{folder}/a/1.jpg" for folder in folders)))
    assert labelling.splits == names
    assert labelling.classes == ("a",)
    assert labelling.warnings == ()


def test_folders_without_pictures_beside_splits_are_no_classes() -> None:
    listing = _listing(
        "train/a/1.jpg", "val/a/1.jpg", folders=("annotations", "annotations/a", "valid", "test")
    )
    labelling = label_candidates(listing)
    assert labelling.splits == ("train", "val", "test")
    assert labelling.classes == ("a",)
    assert labelling.warnings == ("split test has no pictures",)


def test_excluded_folders_beside_splits_are_as_if_they_were_not_there() -> None:
    listing = _listing("train/a/1.jpg", "val/a/1.jpg", "extra/1.jpg", "extra/b/2.jpg")
    assert label_candidates(listing).splits == ("train",)
    labelling = label_candidates(listing, exclude=["extra"])
    assert labelling.splits == ("train", "val")
    assert labelling.classes == ("a",)
    assert labelling.left_out == {"excluded-class": 2}
    assert _by_path(listing, labelling)["extra/b/2.jpg"][0] == ""


def test_class_names_are_the_same_text_in_every_locale() -> None:
    raw = [b"caf\xc3\xa9/1.jpg", b"caf\xe9/1.jpg", b"cafz/1.jpg"]
    column = np.ones(3, "<i8")
    folders = [path.partition(b"/")[0] for path in raw]
    listing = Listing(sorted(raw), column, column, sorted(folders))
    labelling = label_candidates(listing, exclude=["caf\udce9"])
    assert labelling.classes == ("cafz", "caf\xe9")  # by bytes: z before \xc3


def test_numbers_are_labels_where_there_are_no_folders() -> None:
    """Gaps are classes without pictures: numbers stay what the files say."""
    values = {"1.jpg": 3, "2.jpg": 0, "3.jpg": -1}
    listing = _numbered(values)
    labelling = label_candidates(listing)
    assert labelling.classes == ("0", "1", "2", "3")
    assert _by_path(listing, labelling) == {path: ("train", n) for path, n in values.items()}
    assert labelling.unlabelled == {}
    val = label_candidates(_numbered({"train/1.jpg": 2, "val/1.jpg": 1, "val/2.jpg": 4}))
    assert val.splits == ("train", "val")
    assert val.classes == ("0", "1", "2", "3", "4")
    assert val.label.tolist() == [2, 1, 4]
    # An empty folder beside the pictures is no class then.
    assert label_candidates(_numbered({"1.jpg": 1}, folders=("logs",))).classes == ("0", "1")


def test_numbers_that_folders_confirm_leave_the_folders_names() -> None:
    labelling = label_candidates(_numbered({"a/1.jpg": 0, "b/1.jpg": 1, "b/2.jpg": -1}))
    assert labelling.classes == ("a", "b")
    assert labelling.label.tolist() == [0, 1, 1]
    assert labelling.warnings == ()


def test_numbers_that_contradict_the_folders_are_refused() -> None:
    values = {"a/1.jpg": 0, "b/1.jpg": 7, "c/1.jpg": 1}
    with pytest.raises(SourceError) as caught:
        label_candidates(_numbered(values))
    assert "2 of 3 pictures" in caught.value.message
    assert "b/1.jpg says 7, its folder is number 1" in caught.value.message
    # b left out, the folder of c is number 1.
    assert label_candidates(_numbered(values), exclude=["b"]).classes == ("a", "c")


def test_a_flat_val_with_numbers_has_labels() -> None:
    listing = _numbered({"train/a/1.jpg": -1, "train/b/1.jpg": -1, "val/1.jpg": 1, "val/2.jpg": 0})
    labelling = label_candidates(listing)
    assert labelling.classes == ("a", "b")
    assert labelling.label.tolist() == [0, 1, 1, 0]
    assert labelling.unlabelled == {}
    assert [line for line in labelling.warnings if "2 labels come from .cls files" in line]
    with pytest.raises(SourceError, match=r"val/1\.jpg says 2, but there are 2 classes"):
        label_candidates(_numbered({"train/a/1.jpg": -1, "train/b/1.jpg": -1, "val/1.jpg": 2}))


def test_numbers_that_are_no_classes_are_refused() -> None:
    with pytest.raises(SourceError, match=r"1\.jpg says 987654321"):
        label_candidates(_numbered({"1.jpg": 987_654_321}))


@given(st.lists(st.tuples(st.sampled_from("ab/"), st.integers(-1, 5)), min_size=1, max_size=12))
def test_no_number_is_changed_silently(drawn: list[tuple[str, int]]) -> None:
    """Whatever lies in folders and has a number: labels are the numbers, or it is refused."""
    values = {f"{where.strip('/')}/{n}.jpg".lstrip("/"): v for n, (where, v) in enumerate(drawn)}
    listing = _numbered(values)
    try:
        labelling = label_candidates(listing)
    except SourceError:
        return
    for path, (split, label) in _by_path(listing, labelling).items():
        if split and values[path] >= 0:
            assert label == values[path]
