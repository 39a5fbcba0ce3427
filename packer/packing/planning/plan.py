"""The place of each candidate in the pack, decided before a picture is decoded. Pure.

The candidates of each split, in seeded (or path) order, are numbered: these are the slots. A batch
is `batch_size` consecutive slots of one split; a shard is a whole number of batches, from an
estimate that uses the options and the file sizes alone. So the plan depends only on the scanned
list and the options; a slot that turns out to be undecodable shortens its batch and moves no other
slot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from packer.codecs import load_codec
from packer.packing.planning.labels import Labelling, hash_paths
from packer.settings.options import ConvertOptions, ImageOptions
from packer.types import Array, Listing

#: Ratio of width to height of a typical photograph: 4:3.
_ASPECT = 4 / 3


@dataclass(frozen=True)
class ShardPlan:
    """One shard to make.

    Attributes:
        split: Name of its split.
        stem: Its file name without extension, `<split>-000000`.
        batches: (first slot, end slot) of each of its batches.
    """

    split: str
    stem: str
    batches: tuple[tuple[int, int], ...]

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.batches[-1][1] - self.batches[0][0]


@dataclass(frozen=True)
class Plan:
    """The whole plan.

    Attributes:
        candidate: int64, one a slot: index into the listing.
        label: int32, one a slot: class index, or NO_LABEL.
        splits: By name: (first slot, end slot).
        batch_size: Slots in a batch.
        shard_batches: Batches in a shard.
    """

    candidate: Array
    label: Array
    splits: dict[str, tuple[int, int]]
    batch_size: int
    shard_batches: int

    def shards(self) -> Iterator[ShardPlan]:
        """All shards in order, split by split."""
        return plan_shards(self.splits, self.batch_size, self.shard_batches)


def plan_shards(
    splits: Mapping[str, tuple[int, int]], batch_size: int, shard_batches: int
) -> Iterator[ShardPlan]:
    """All shards in order, split by split; the arguments are attributes of `Plan`."""
    for split, (first, end) in splits.items():
        batches = [(slot, min(slot + batch_size, end)) for slot in range(first, end, batch_size)]
        for number, at in enumerate(range(0, len(batches), shard_batches)):
            some = tuple(batches[at : at + shard_batches])
            yield ShardPlan(split, f"{split}-{number:06d}", some)


def make_plan(listing: Listing, labelling: Labelling, options: ConvertOptions) -> Plan:
    """Plan a conversion as the module's docstring describes."""
    if options.order == "shuffled":
        rank = np.argsort(hash_paths(listing.paths, b"order", options.seed), kind="stable")
    else:
        rank = _in_order_of_folders(listing, labelling)
    order, splits, first = [], {}, 0
    for number, name in enumerate(labelling.splits):
        chosen = rank[labelling.split[rank] == number]
        order.append(chosen)
        splits[name] = (first, first + len(chosen))
        first += len(chosen)
    candidate = np.concatenate(order).astype("<i8")
    sizes = listing.sizes[candidate]
    mean = float(sizes.mean()) if len(sizes) else 0.0
    estimate = estimate_bytes(options.image, mean)
    return Plan(
        candidate=candidate,
        label=labelling.label[candidate],
        splits=splits,
        batch_size=options.batch_size,
        shard_batches=max(1, round(options.shard_size / (estimate * options.batch_size))),
    )


def _in_order_of_folders(listing: Listing, labelling: Labelling) -> Array:
    """The order of torchvision's ImageFolder: by class, then by the folder's path, then by the
    file's name. It differs from the order of paths if class folders contain folders: a file comes
    before the files of a folder beside it, whatever the names.
    """
    folders = [path.rpartition(b"/")[0] for path in listing.paths]
    place = {folder: number for number, folder in enumerate(sorted(set(folders)))}
    keys = [np.array([place[folder] for folder in folders], np.int64)]
    if listing.numbers is None:  # with numbers, classes are not folders
        keys.append(labelling.label)
    order: Array = np.lexsort(keys)  # stable: a listing is sorted by path, so names are in order
    return order


def estimate_bytes(options: ImageOptions, mean_file: float) -> float:
    """Estimate the bytes of one stored picture.

    Args:
        options: How pictures are made.
        mean_file: Mean bytes of the source's files.
    """
    if options.size is None:
        return max(1.0, mean_file)
    width, height = options.size
    pixels: float = width * height
    if options.mode == "short":
        pixels *= _ASPECT
    elif options.mode == "long":
        pixels /= _ASPECT
    return max(1.0, pixels * load_codec(options.codec).bits_per_pixel(options) / 8)


def listing_digest(listing: Listing) -> str:
    """Hex SHA-256 of the sorted (path, size) list, and of the numbers in `.cls` files if there are
    any, to compare two scans.
    """
    digest = hashlib.sha256()
    for path, size in zip(listing.paths, listing.sizes.tolist(), strict=True):
        digest.update(b"%d %d " % (len(path), size))
        digest.update(path)
    if listing.numbers is not None:
        digest.update(listing.numbers.values.astype("<i8").tobytes())
    return digest.hexdigest()
