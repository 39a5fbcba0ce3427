"""Classes and splits from folder names and `.cls` files. Pure.

Folders are numbered as torchvision's ImageFolder numbers them. A candidate's class is its top
folder. If every top folder with pictures has the name of a split (train, val, test and the like, in
upper or lower case), the top folders are splits, and the class is the folder below. A class's index
is its place among the sorted class folders; all splits share one list, train's if there is a train.
A `.cls` file holds the index of its picture's class; without class folders, the numbers are the
classes' names.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from packer.errors import ConfigError, SourceError, suggestion
from packer.packing.planning import doubts
from packer.settings.parsing import parse_split
from packer.sources import split_name
from packer.types import NO_LABEL, Array, Listing, display_path, path_bytes

#: Split of a candidate that is left out: of an excluded class, or outside every class folder.
LEFT_OUT = -1
#: Number of a path without a folder at that depth. -1 is also the last row of a table.
_NONE = -1
#: More classes than any data set has. Larger numbers in `.cls` files are not classes, and every
#: class takes a name in the manifest.
_MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class Labelling:
    """Class and split of every candidate.

    Attributes:
        classes: Class folder names, sorted; a class's index is its place.
        splits: Names of the splits, in order.
        label: int32, one a candidate: class index, or NO_LABEL.
        split: int16, one a candidate: index into `splits`, or LEFT_OUT.
        left_out: Number of candidates left out, by reason: "excluded-class", "outside-class".
        warnings: One line each.
        unlabelled: Number of samples by split, for splits in which no sample has a label.
    """

    classes: tuple[str, ...]
    splits: tuple[str, ...]
    label: Array
    split: Array
    left_out: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    unlabelled: Mapping[str, int] = field(default_factory=dict)


def label_candidates(
    listing: Listing, *, split: str | None = None, split_seed: int = 0, exclude: Sequence[str] = ()
) -> Labelling:
    """Give every candidate its class and split.

    Args:
        listing: The scanned list.
        split: "train=0.8,val=0.2", "none", or None for train alone (or the source's own splits).
        split_seed: Seed of the hash that splits by path.
        exclude: Class folders to treat as missing.

    Raises:
        ConfigError: `split` is invalid, or a class to exclude does not exist.
        SourceError: val or test has a class that train lacks.
    """
    excluded = {path_bytes(name) for name in exclude}
    tops = _folder_numbers(listing.paths, depth=0)
    own = _own_splits(listing, tops, excluded)
    if own and split is not None:
        raise ConfigError("the source is split already, by its top folders", "leave out --split")
    names = tuple(dict.fromkeys(own.values())) if own else ("train",)
    inner = _folder_numbers(listing.paths, depth=1) if own else tops
    splits = np.zeros(len(listing.paths), "<i2")
    if own:
        numbered = {top: names.index(own[top]) if top in own else LEFT_OUT for top in tops.names}
        splits = _mapped(tops, numbered, "<i2")
    by_split = _class_folders(listing, inner, splits, names, own)
    known = set().union(*by_split.values())
    _require_known(excluded, known | (set(tops.names) if own else set()))
    classes = _class_list(by_split, excluded) if (inner.number != _NONE).any() else []
    numbers = {name: number for number, name in enumerate(classes)}
    labels = _mapped(inner, {name: numbers.get(name, NO_LABEL) for name in inner.names}, "<i4")
    left_out: dict[str, int] = {}
    gone = _mapped(inner, {name: name in excluded for name in inner.names}, "?", none=False)
    _leave_out(splits, gone | (splits == LEFT_OUT), "excluded-class", left_out)
    # A split without pictures in class folders is a flat one: its pictures have no label.
    in_folder = inner.number != _NONE
    has_classes = np.array([bool((in_folder & (splits == n)).any()) for n in range(len(names))])
    from_numbers = listing.numbers is not None and not has_classes.any()
    if listing.numbers is not None:
        classes = _take_numbers(listing, labels, splits != LEFT_OUT, classes)
    stray = ~in_folder & has_classes[splits] & (labels == NO_LABEL) & (splits != LEFT_OUT)
    _leave_out(splits, stray, "outside-class", left_out)
    if not own and split not in (None, "none"):
        names, fractions = parse_split(split or "")
        drawn = split_by_path(listing.paths, fractions, split_seed)
        splits = np.where(splits != LEFT_OUT, drawn, LEFT_OUT).astype("<i2")
    layout = doubts.Layout(
        listing,
        classes,
        names,
        labels,
        splits,
        excluded,
        is_split=bool(own),
        from_numbers=from_numbers,
    )
    return Labelling(
        classes=tuple(map(display_path, classes)),
        splits=names,
        label=labels,
        split=splits,
        left_out=left_out,
        warnings=tuple(doubts.warnings(layout, np.flatnonzero(stray))),
        unlabelled=doubts.unlabelled(layout),
    )


def split_by_path(paths: Sequence[bytes], fractions: Sequence[float], seed: int) -> Array:
    """Index of the split of each path, by a hash of (seed, path), independent of other files.

    Returns:
        int16, one a path.
    """
    points = hash_paths(paths, b"split", seed) / float(1 << 64)
    edges = np.cumsum(fractions)[:-1]
    return np.searchsorted(edges, points, side="right").astype("<i2")


def hash_paths(paths: Sequence[bytes], purpose: bytes, seed: int) -> Array:
    """uint64 hash of each path, different for each purpose (up to 16 bytes) and seed."""
    key = seed.to_bytes(16, "little", signed=True)
    person = purpose.ljust(16, b"\0")

    def digest(path: bytes) -> bytes:
        return hashlib.blake2b(path, digest_size=8, key=key, person=person).digest()

    return np.frombuffer(b"".join(map(digest, paths)), "<u8")


def _own_splits(listing: Listing, tops: _Folders, excluded: set[bytes]) -> dict[bytes, str]:
    """Top folder → split, in the order train, val, test; empty if the top folders are no splits.

    They are splits if every top folder with pictures has the name of a split, and no picture lies
    beside them. Excluded folders are ignored.
    """
    holding = set(tops.names) - excluded
    if not holding or (tops.number == _NONE).any() or not all(map(split_name, holding)):
        return {}
    every = {folder.split(b"/", 1)[0] for folder in listing.folders} - excluded
    own: dict[bytes, str] = {}
    for name in ("train", "val", "test"):
        named = [folder for folder in sorted(every | holding) if split_name(folder) == name]
        folders = [folder for folder in named if folder in holding] or named[:1]
        if len(folders) > 1:
            shown = ", ".join(map(display_path, folders))
            raise SourceError(f"two top folders stand for the same split: {shown}", "rename one")
        own |= dict.fromkeys(folders, name)
    return own


@dataclass(frozen=True)
class _Folders:
    """One folder of each path, by number: a million paths cost a million small integers.

    Attributes:
        names: The different folders.
        number: int32, one a path: index into `names`, or _NONE.
    """

    names: list[bytes]
    number: Array


def _folder_numbers(paths: Sequence[bytes], depth: int) -> _Folders:
    """The folder of each path at `depth`: 0 is the top folder."""
    numbers: dict[bytes, int] = {}
    column = array("i")
    for path in paths:
        parts = path.split(b"/", depth + 1)
        if len(parts) > depth + 1:
            column.append(numbers.setdefault(parts[depth], len(numbers)))
        else:
            column.append(_NONE)
    return _Folders(list(numbers), np.frombuffer(column, "<i4"))


def _mapped(
    folders: _Folders, values: Mapping[bytes, int], dtype: str, none: int = NO_LABEL
) -> Array:
    """The value of each path's folder; `none` if it has no folder."""
    table = np.array([*(values[name] for name in folders.names), none], dtype)
    return table[folders.number]  # _NONE is the last row


def _class_folders(
    listing: Listing,
    inner: _Folders,
    splits: Array,
    names: Sequence[str],
    own: Mapping[bytes, str],
) -> dict[str, set[bytes]]:
    """Class folders of each split, including empty ones, as ImageFolder counts them."""
    found: dict[str, set[bytes]] = {}
    for number, name in enumerate(names):
        present = np.unique(inner.number[splits == number]).tolist()
        found[name] = {inner.names[folder] for folder in present if folder != _NONE}
    for path in listing.folders:
        parts = path.split(b"/")
        if own and len(parts) == 2 and parts[0] in own:
            found[own[parts[0]]].add(parts[1])
        elif not own and len(parts) == 1:
            found[names[0]].add(parts[0])
    return found


def _require_known(excluded: set[bytes], known: set[bytes]) -> None:
    for name in sorted(excluded - known):
        text = display_path(name)
        hint = suggestion(text, map(display_path, known))
        raise ConfigError(f"no class folder {text!r} to exclude", hint)


def _class_list(by_split: Mapping[str, set[bytes]], excluded: set[bytes]) -> list[bytes]:
    """Class folders sorted by their bytes: ImageFolder's order if all names are UTF-8."""
    base = by_split.get("train") or set().union(*by_split.values())
    for name, folders in by_split.items():
        for folder in sorted(folders - base - excluded):
            shown = display_path(folder)
            raise SourceError(
                f"class folder {shown!r} is in {name} but not in train",
                f"--exclude-class {shown}, or make that folder in train",
            )
    return sorted(base - excluded)


def _take_numbers(
    listing: Listing, labels: Array, kept: Array, classes: list[bytes]
) -> list[bytes]:
    """Write the numbers in `.cls` files into the labels.

    Args:
        listing: The scanned list.
        labels: int32, one a candidate: labels from the folders.
        kept: bool, one a candidate: whether it is in a split.
        classes: Class folders.

    Returns:
        The class names: the folders, or the numbers if no picture is in a class folder.

    Raises:
        SourceError: The numbers contradict the folders, or are too large.
    """
    assert listing.numbers is not None, "there are such files"
    values = np.where(kept, listing.numbers.values, NO_LABEL)
    in_folder = kept & (labels != NO_LABEL)
    differing = np.flatnonzero(in_folder & (values != NO_LABEL) & (values != labels))
    if len(differing):
        first = int(differing[0])
        raise SourceError(
            f"{len(differing)} of {len(values)} pictures have another number in their .cls file"
            f" than their class folder's: {display_path(listing.paths[first])} says"
            f" {values[first]}, its folder is number {labels[first]}",
            "find . -name '*.jpg' | packer convert - takes the folders alone; or put all files of"
            " a split into one folder",
        )
    most = len(classes) if in_folder.any() else _MOST_CLASSES
    largest = int(values.max(initial=NO_LABEL))
    if largest >= most:
        path = display_path(listing.paths[int(values.argmax())])
        raise SourceError(
            f"the .cls file of {path} says {largest}, but there are {most} classes at most"
        )
    labels[:] = np.where(values != NO_LABEL, values, labels)
    return classes if in_folder.any() else [b"%d" % number for number in range(largest + 1)]


def _leave_out(splits: Array, which: Array, reason: str, counts: dict[str, int]) -> None:
    splits[which] = LEFT_OUT
    if which.any():
        counts[reason] = int(which.sum())
