import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer.errors import ConfigError, SourceError
from packer.packing.labels import LEFT_OUT, Labelling, label_candidates, split_by_path
from packer.types import Listing


def _listing(*paths: str, folders: tuple[str, ...] = ()) -> Listing:
    raw = sorted(os.fsencode(path) for path in paths)
    found = {b"/".join(p.split(b"/")[:n]) for p in raw for n in (1, 2) if p.count(b"/") >= n}
    found |= {os.fsencode(folder) for folder in folders}
    return Listing(raw, np.ones(len(raw), "<i8"), np.zeros(len(raw), "<i8"), sorted(found))


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
    """CV11: val lacks b, or has it empty; c and d keep their numbers."""
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
        assert labelling.warnings == ("val has no picture of 1 classes: b",)


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


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
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
    """CV15: Caltech-256's clutter."""
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
    assert "has no picture of 1 classes: lonely" in labelling.warnings[0]
    other = label_candidates(listing, split="train=0.8,val=0.2", split_seed=1)
    assert (labelling.split != other.split).any()
