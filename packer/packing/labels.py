"""From folder names to classes and splits, as torchvision's ImageFolder numbers them. Pure.

A candidate's class is its top folder; in a source whose every top folder is named train, val,
valid, validation or test these are the splits, and the class is the folder below. A class's index
is its place among the sorted class folders; all splits share one list, train's where there is one.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from packer.errors import ConfigError, SourceError, suggestion
from packer.parsing import parse_split
from packer.types import NO_LABEL, Array, Listing

SPLIT_FOLDERS = {
    b"train": "train",
    b"val": "val",
    b"valid": "val",
    b"validation": "val",
    b"test": "test",
}
#: Candidate belongs to no split: of an excluded class, or outside every class folder.
LEFT_OUT = -1
#: A path without such a folder. Minus one is also the last row of a table.
_NONE = -1


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
    """

    classes: tuple[str, ...]
    splits: tuple[str, ...]
    label: Array
    split: Array
    left_out: Mapping[str, int]
    warnings: tuple[str, ...] = ()


def label_candidates(
    listing: Listing, *, split: str | None = None, split_seed: int = 0, exclude: Sequence[str] = ()
) -> Labelling:
    """Give every candidate its class and split.

    Args:
        listing: What the scan found.
        split: "train=0.8,val=0.2", "none", or None for train alone (or the source's own splits).
        split_seed: Seed of the hash that splits by path.
        exclude: Class folders to leave out, as if they were not there.

    Raises:
        ConfigError: A split that cannot be, a class to exclude that is not there.
        SourceError: A class in val or test that train lacks.
    """
    is_split = has_split_folders(listing)
    if is_split and split is not None:
        raise ConfigError("the source is split already, by its top folders", "leave out --split")
    own = _own_splits(listing) if is_split else {}
    names = tuple(dict.fromkeys(own.values())) if is_split else ("train",)
    inner = _folder_numbers(listing.paths, depth=1 if is_split else 0)
    splits = np.zeros(len(listing.paths), "<i2")
    if is_split:
        tops = _folder_numbers(listing.paths, depth=0)
        splits = _mapped(tops, {top: names.index(own[top]) for top in tops.names}, "<i2")
    by_split = _class_folders(listing, inner, splits, names, own)
    excluded = _excluded(exclude, set().union(*by_split.values()))
    classes = _class_list(by_split, excluded)
    numbers = {name: number for number, name in enumerate(classes)}
    labels = _mapped(inner, {name: numbers.get(name, NO_LABEL) for name in inner.names}, "<i4")
    left_out: dict[str, int] = {}
    gone = _mapped(inner, {name: name in excluded for name in inner.names}, "?", none=False)
    _leave_out(splits, gone, "excluded-class", left_out)
    # A split without any class folder is a flat one: its pictures have no label.
    has_classes = np.array([bool(by_split[name]) for name in names])
    stray = (inner.number == _NONE) & has_classes[splits] & ~gone
    _leave_out(splits, stray, "outside-class", left_out)
    warnings: list[str] = []
    if is_split:
        with_classes = [number for number, name in enumerate(names) if by_split[name]]
        warnings = _missing(classes, labels, splits, names, with_classes)
    elif split not in (None, "none"):
        names, fractions = parse_split(split or "")
        kept = splits != LEFT_OUT
        drawn = split_by_path(listing.paths, fractions, split_seed)
        splits = np.where(kept, drawn, LEFT_OUT).astype("<i2")
        warnings = _missing(classes, labels, splits, names, range(len(names)))
    shown = tuple(os.fsdecode(name) for name in classes)
    return Labelling(shown, names, labels, splits, left_out, tuple(warnings))


def has_split_folders(listing: Listing) -> bool:
    """Whether every top folder is named as a split, and no candidate lies beside them."""
    tops = {folder.split(b"/", 1)[0] for folder in listing.folders}
    return bool(tops) and tops <= SPLIT_FOLDERS.keys() and all(b"/" in p for p in listing.paths)


def split_by_path(paths: Sequence[bytes], fractions: Sequence[float], seed: int) -> Array:
    """Index of the split of each path, by a hash of (seed, path): other files change nothing.

    Returns:
        int16, one a path.
    """
    points = hash_paths(paths, b"split", seed) / float(1 << 64)
    edges = np.cumsum(fractions)[:-1]
    return np.searchsorted(edges, points, side="right").astype("<i2")


def hash_paths(paths: Sequence[bytes], purpose: bytes, seed: int) -> Array:
    """uint64 hash of each path, another for every purpose (up to 16 bytes) and seed."""
    key = seed.to_bytes(16, "little", signed=True)
    person = purpose.ljust(16, b"\0")

    def digest(path: bytes) -> bytes:
        return hashlib.blake2b(path, digest_size=8, key=key, person=person).digest()

    return np.frombuffer(b"".join(map(digest, paths)), "<u8")


def _own_splits(listing: Listing) -> dict[bytes, str]:
    """Top folder → split, in the order train, val, test."""
    tops = {folder.split(b"/", 1)[0] for folder in listing.folders}
    own = {folder: name for folder, name in SPLIT_FOLDERS.items() if folder in tops}
    if len(set(own.values())) < len(own):
        found = ", ".join(os.fsdecode(folder) for folder in own)
        raise SourceError(f"two top folders stand for the same split: {found}", "rename one")
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
    """The value of each path's folder, `none` where it has no folder."""
    table = np.array([*(values[name] for name in folders.names), none], dtype)
    return table[folders.number]  # _NONE is the last row


def _class_folders(
    listing: Listing,
    inner: _Folders,
    splits: Array,
    names: Sequence[str],
    own: Mapping[bytes, str],
) -> dict[str, set[bytes]]:
    """Class folders of each split, those without pictures too (ImageFolder counts them)."""
    found: dict[str, set[bytes]] = {}
    for number, name in enumerate(names):
        present = np.unique(inner.number[splits == number]).tolist()
        found[name] = {inner.names[folder] for folder in present if folder != _NONE}
    for path in listing.folders:
        parts = path.split(b"/")
        if own and len(parts) == 2:
            found[own[parts[0]]].add(parts[1])
        elif not own and len(parts) == 1:
            found[names[0]].add(parts[0])
    return found


def _excluded(exclude: Sequence[str], known: set[bytes]) -> set[bytes]:
    excluded = {os.fsencode(name) for name in exclude}
    for name in sorted(excluded - known):
        text = os.fsdecode(name)
        hint = suggestion(text, [os.fsdecode(folder) for folder in known])
        raise ConfigError(f"no class folder {text!r} to exclude", hint)
    return excluded


def _class_list(by_split: Mapping[str, set[bytes]], excluded: set[bytes]) -> list[bytes]:
    """Sorted as Python sorts their names, which is how ImageFolder numbers them."""
    base = by_split.get("train") or set().union(*by_split.values())
    for name, folders in by_split.items():
        for folder in sorted(folders - base - excluded):
            raise SourceError(
                f"class folder {os.fsdecode(folder)!r} is in {name} but not in train",
                f"--exclude-class {os.fsdecode(folder)}, or make that folder in train",
            )
    return sorted(base - excluded, key=os.fsdecode)


def _leave_out(splits: Array, which: Array, reason: str, counts: dict[str, int]) -> None:
    splits[which] = LEFT_OUT
    if which.any():
        counts[reason] = int(which.sum())


def _missing(
    classes: Sequence[bytes],
    labels: Array,
    splits: Array,
    names: Sequence[str],
    which: Sequence[int] | range,
) -> list[str]:
    """A line a split that lacks classes, naming some."""
    lines = []
    for number in which:
        present = np.bincount(labels[(splits == number) & (labels >= 0)], minlength=len(classes))
        absent = [os.fsdecode(classes[index]) for index in np.flatnonzero(present == 0).tolist()]
        if absent:
            shown = ", ".join(absent[:5]) + (" …" if len(absent) > 5 else "")
            lines.append(f"{names[number]} has no picture of {len(absent)} classes: {shown}")
    return lines
