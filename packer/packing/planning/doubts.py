"""Warnings about a source's layout that may not be intended, one line each. Pure."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packer.sources import split_name
from packer.types import NO_LABEL, Array, ClassNumbers, Listing, Sidecars, display_path
from packer.wording import count as counted

#: Most names that a line lists.
_SHOWN = 5
#: Names, lower case, of folders whose pictures are masks and the like, not samples; …
_MASKS = frozenset(
    b"masks segmentationclass segmentationclassaug segmentationobject segmentations gtfine gtcoarse"
    b" annotations".split()
)
#: … names that mean masks only beside a folder of the pictures themselves; names of such folders.
_MASKS_BESIDE_IMAGES = frozenset(
    b"mask labels label gt groundtruth ground_truth seg segs depth".split()
)
_IMAGES = frozenset(
    b"images image imgs img jpegimages leftimg8bit frames photos inputs input".split()
)
_STORES = "PackWriter does, as fields"
#: Descriptions of `Listing.sidecars`, by kind.
_SIDECARS = {
    "metadata": "the metadata of Hugging Face's imagefolder",
    "yolo": "YOLO's labels",
    "coco": "COCO's annotations",
    "voc": "Pascal VOC's annotations",
    "table": "tables beside pictures",
}
#: Names that begin like a split's: train2017, test_images.
_LIKE_A_SPLIT = re.compile(rb"(train|val|test)(?:ing|id|idation)?(?:[-_. ].*|\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """How a source was read.

    Attributes:
        listing: The scanned list.
        classes: Class folders.
        names: Names of the splits.
        labels: int32, one a candidate: class index, or NO_LABEL.
        splits: int16, one a candidate: index into `names`, or negative if it is left out.
        excluded: Class folders that the user excludes.
        is_split: Whether the top folders are splits.
        from_numbers: Whether the classes' names are the numbers in `.cls` files.
    """

    listing: Listing
    classes: Sequence[bytes]
    names: Sequence[str]
    labels: Array
    splits: Array
    excluded: set[bytes]
    is_split: bool
    from_numbers: bool

    @property
    def kept(self) -> Array:
        """bool, one a candidate: it is in a split."""
        kept: Array = self.splits >= 0
        return kept


def warnings(layout: Layout, strays: Array) -> Iterator[str]:
    """All warnings about a layout.

    Args:
        layout: How the source was read.
        strays: Candidates that were left out because they lie outside the class folders.
    """
    if not layout.is_split:
        yield from _nearly_split(layout)
        yield from _splits_inside(layout)
        yield from _folder_around(layout)
    yield from _without_label(layout)
    if len(strays):
        paths = [layout.listing.paths[place] for place in strays.tolist()]
        count = counted(len(paths), "picture")
        yield f"{count} outside of class folders left out: {_some(paths)}"
    absent = _absent(layout, layout.kept)
    yield from _without_pictures(layout, absent)
    if len(layout.names) > 1:
        yield from _missing_in_splits(layout, absent)
    if layout.listing.numbers is not None:
        yield from _numbers(layout, layout.listing.numbers)
    yield from _masks(layout)
    yield from sidecars(layout.listing.sidecars)


def unlabelled(layout: Layout) -> dict[str, int]:
    """Number of samples by split, of splits in which none has a label."""
    found = {}
    for number, name in enumerate(layout.names):
        labels = layout.labels[layout.splits == number]
        if len(labels) and (labels == NO_LABEL).all():
            found[name] = len(labels)
    return found


def sidecars(found: Mapping[str, Sidecars]) -> Iterator[str]:
    """A line for each kind of file that may hold labels and is not read."""
    for kind, files in found.items():
        example = display_path(files.example)
        if kind == "dvc":
            count = counted(files.files, "folder")
            yield f"{count} that DVC has not fetched (dvc pull does): {example} points to one"
            continue
        what, count = _SIDECARS.get(kind, ""), counted(files.files, "file")
        if not what:
            what = "what lies beside pictures of the same name"
            count = counted(files.files, f"{kind.removeprefix('beside ')} file")
        yield f"packer does not store {what}: {count}, as {example}; {_STORES}"


def _nearly_split(layout: Layout) -> Iterator[str]:
    """Top folders named as splits that were read as classes."""
    folders = layout.listing.folders
    alike = {folder: _LIKE_A_SPLIT.fullmatch(folder) for folder in layout.classes}
    named = {
        folder: found[1].lower()
        for folder, found in alike.items()
        if found and _holds_pictures(layout.listing, folder)
    }
    splits = [folder for folder in named if split_name(folder) is not None]
    deep = [folder for folder in splits if any(f.startswith(folder + b"/") for f in folders)]
    if not deep and len(set(named.values())) < 2:
        return  # a single class named "train" is a class
    others = [
        folder
        for folder in layout.classes
        if folder not in splits and _holds_pictures(layout.listing, folder)
    ]
    if not splits:
        why, way = "no folder is named train, val or test", "name them train, val and test"
    elif others:
        why = f"{_some(others)} hold pictures too"
        way = " ".join(f"--exclude-class {display_path(folder)}" for folder in others[:_SHOWN])
    else:
        beside = [path for path in layout.listing.paths if b"/" not in path]
        why, way = f"pictures lie beside them ({_some(beside)})", "move these away"
    yield (
        f"{_some(splits or list(named))} look like splits, but were read as classes of one split:"
        f" {why}; to read them as splits: {way}"
    )


def _splits_inside(layout: Layout) -> Iterator[str]:
    """Class folders that hold folders named as splits."""
    inside: dict[bytes, set[str]] = {}
    for folder in layout.listing.folders:
        top, slash, below = folder.partition(b"/")
        split = split_name(below) if slash else None
        if split is not None and _holds_pictures(layout.listing, folder):
            inside.setdefault(top, set()).add(split)
    nested = sorted(top for top, splits in inside.items() if len(splits) > 1)
    if nested := [top for top in nested if top in layout.classes]:
        yield (
            f"{counted(len(nested), 'class folder')} with folders inside that are named as splits,"
            f" read as one class each: {_some(nested)}; splits are top folders: train/CLASS/1.jpg"
        )


def _folder_around(layout: Layout) -> Iterator[str]:
    """One class that holds nothing but folders of pictures: the classes may be these."""
    labels = np.unique(layout.labels[layout.kept])
    if layout.from_numbers or len(labels) != 1 or labels[0] == NO_LABEL:
        return
    paths = [layout.listing.paths[place] for place in np.flatnonzero(layout.kept).tolist()]
    # The paths are sorted: all lie in the folder that the first and the last have in common.
    around = posixpath.commonpath([posixpath.dirname(path) for path in (paths[0], paths[-1])])
    inside = [path[len(around) + 1 :].partition(b"/") for path in paths]
    folders = sorted({folder for folder, _, _ in inside})
    if around and len(folders) > 1 and all(slash for _, slash, _ in inside):
        yield (
            f"all pictures are of one class, {display_path(layout.classes[int(labels[0])])}; if"
            f" {_some(folders)} are the classes, give the folder {display_path(around)} as source"
        )


def _without_label(layout: Layout) -> Iterator[str]:
    found = unlabelled(layout)
    total = int(layout.kept.sum())
    if found and sum(found.values()) == total:
        yield (
            f"no class folders: {counted(total, 'sample')} have no label (-1); a folder for each"
            " class gives them one"
        )
        return
    for name, count in found.items():
        yield (
            f"{name} has no class folders: its {counted(count, 'sample')} have no label (-1);"
            " class folders in it, named as train's, give them one"
        )
    rest = int((layout.kept & (layout.labels == NO_LABEL)).sum()) - sum(found.values())
    if rest:
        yield (
            f"{rest} of {total} samples have no label (-1): their .cls files are not there or hold"
            " no number"
        )


def _absent(layout: Layout, which: Array) -> set[int]:
    """Classes without a picture among some candidates."""
    labels = layout.labels[which & (layout.labels != NO_LABEL)]
    present = np.bincount(labels, minlength=len(layout.classes))
    return set(np.flatnonzero(present == 0).tolist())


def _without_pictures(layout: Layout, absent: set[int]) -> Iterator[str]:
    """Classes that take a number and have no picture at all."""
    if not absent:
        return
    shown = _some([layout.classes[index] for index in sorted(absent)])
    if layout.from_numbers:
        count = len(layout.classes)
        yield f"{len(absent)} of the classes 0 to {count - 1} have no picture: {shown}"
        return
    example = display_path(layout.classes[min(absent)])
    yield (
        f"{counted(len(absent), 'class folder')} without pictures, numbered as classes anyway:"
        f" {shown}; --exclude-class {example} leaves one out"
    )


def _missing_in_splits(layout: Layout, absent: set[int]) -> Iterator[str]:
    """A line for each split that lacks classes which other splits have."""
    for number, name in enumerate(layout.names):
        which = layout.splits == number
        if not which.any():
            yield f"split {name} has no pictures"
            continue
        if layout.is_split and not (layout.labels[which] != NO_LABEL).any():
            continue
        lacking = sorted(_absent(layout, which) - absent)
        if lacking:
            shown = _some([layout.classes[index] for index in lacking])
            yield f"{name} has no picture of {counted(len(lacking), 'class')}: {shown}"


def _numbers(layout: Layout, found: ClassNumbers) -> Iterator[str]:
    """Warnings about `.cls` files."""
    for paths, what in (
        (found.invalid, "that hold no number from 0 on"),
        (found.alone, "without a picture of their name"),
    ):
        if paths:
            yield f"{counted(len(paths), '.cls file')} {what}: {_some(paths)}"
    if found.shared:
        count = counted(len(found.shared), "picture")
        yield (
            f"{count} with the .cls file of another one, each a sample of its own:"
            f" {_some(found.shared)}"
        )
    if not layout.from_numbers:
        depth = 2 if layout.is_split else 1
        flat = np.array([path.count(b"/") < depth for path in layout.listing.paths])
        if flatly := int((flat & layout.kept & (layout.labels != NO_LABEL)).sum()):
            yield (
                f"{flatly} labels come from .cls files, others from folders: numbers are taken for"
                " the folders' places in sorted order"
            )


def _masks(layout: Layout) -> Iterator[str]:
    """Folders of masks whose pictures became samples."""
    siblings: dict[bytes, set[bytes]] = {}
    for folder in layout.listing.folders:
        above, _, name = folder.rpartition(b"/")
        siblings.setdefault(above, set()).add(name.lower())
    for folder in layout.listing.folders:
        above, _, name = folder.rpartition(b"/")
        if layout.excluded & {name, folder.partition(b"/")[0]}:
            continue
        beside_images = name.lower() in _MASKS_BESIDE_IMAGES and siblings[above] & _IMAGES
        if not (name.lower() in _MASKS or beside_images):
            continue
        if count := _pictures_in(layout.listing, folder):
            way = f"--exclude-class {display_path(name)}"
            if name not in layout.classes:
                way = "a list of the others (packer convert -)"
            yield (
                f"{display_path(folder)} holds {counted(count, 'picture')}, each read as a sample;"
                f" if they are masks, {way} leaves them out: packer stores no masks; {_STORES}"
            )


def _holds_pictures(listing: Listing, folder: bytes) -> bool:
    return _pictures_in(listing, folder) > 0


def _pictures_in(listing: Listing, folder: bytes) -> int:
    """Number of candidates below a folder: paths are sorted, and "0" follows "/"."""
    return bisect_left(listing.paths, folder + b"0") - bisect_left(listing.paths, folder + b"/")


def _some(paths: Sequence[bytes]) -> str:
    """The first names, with an ellipsis if there are more."""
    return ", ".join(map(display_path, paths[:_SHOWN])) + (" …" if len(paths) > _SHOWN else "")
