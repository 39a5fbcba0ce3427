import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packer import sources
from packer.packing.planning.labels import label_candidates
from packer.packing.planning.plan import Plan, estimate_bytes, listing_digest, make_plan
from packer.settings.options import ConvertOptions, Order
from packer.types import Listing


def _listing(count: int, size: int = 1000) -> Listing:
    paths = sorted(f"c{number % 7}/{number}.jpg".encode() for number in range(count))
    folders = sorted({path.split(b"/")[0] for path in paths})
    return Listing(paths, np.full(count, size, "<i8"), np.zeros(count, "<i8"), folders)


def _plan(listing: Listing, options: ConvertOptions) -> Plan:
    return make_plan(listing, label_candidates(listing, split=options.split), options)


@given(
    st.integers(1, 400),
    st.integers(1, 50),
    st.integers(1000, 100_000),
    st.sampled_from([None, "train=0.7,val=0.3", "a=0,b=1"]),
    st.sampled_from(["shuffled", "sorted"]),
)
def test_every_candidate_has_one_slot_and_every_slot_one_batch(
    count: int, batch_size: int, shard_size: int, split: str | None, order: Order
) -> None:
    options = ConvertOptions(batch_size=batch_size, shard_size=shard_size, split=split, order=order)
    plan = _plan(_listing(count), options)
    assert sorted(plan.candidate) == list(range(count))
    spans = [span for shard in plan.shards() for span in shard.batches]
    assert [slot for first, end in spans for slot in range(first, end)] == list(range(count))
    for shard in plan.shards():
        sizes = [end - first for first, end in shard.batches]
        assert all(size == batch_size for size in sizes[:-1])
        assert len(sizes) <= plan.shard_batches
        first, end = plan.splits[shard.split]
        assert first <= shard.batches[0][0] < shard.batches[-1][1] <= end


def test_shuffled_order_depends_on_path_and_seed_alone() -> None:
    small, large = _listing(50), _listing(80)

    def order(listing: Listing, seed: int) -> list[bytes]:
        plan = _plan(listing, ConvertOptions(seed=seed))
        return [listing.paths[index] for index in plan.candidate]

    assert order(small, 0) == [path for path in order(large, 0) if path in set(small.paths)]
    assert order(small, 0) != order(small, 1)


def test_seed_never_moves_a_sample_between_splits() -> None:
    listing = _listing(300)

    def split_of(seed: int) -> dict[bytes, str]:
        plan = _plan(listing, ConvertOptions(seed=seed, split="train=0.5,val=0.5"))
        return {
            listing.paths[plan.candidate[slot]]: name
            for name, (first, end) in plan.splits.items()
            for slot in range(first, end)
        }

    assert split_of(0) == split_of(7)


def _as_image_folder(top: Path) -> list[str]:
    """In the order of torchvision's ImageFolder (`make_dataset` in its datasets/folder.py)."""
    found = []
    for name in sorted(entry.name for entry in os.scandir(top) if entry.is_dir()):
        for root, _, names in sorted(os.walk(top / name, followlinks=True)):
            found += [os.path.relpath(Path(root) / name, top) for name in sorted(names)]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_sorted_order_is_that_of_image_folder(tmp_path: Path, seed: int) -> None:
    """With folders in class folders, and names that sort around the slash."""
    draw = random.Random(seed)
    parts = ["a", "a b", "a.d", "a-1", "a0", "B", "ä", "z", "10", "9"]
    for _ in range(60):
        folders = [draw.choice(parts) for _ in range(draw.randint(1, 4))]
        path = tmp_path.joinpath(*folders, draw.choice(parts) + ".jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    listing = sources.open_source(tmp_path).scan()
    plan = _plan(listing, ConvertOptions(order="sorted"))
    found = [os.fsdecode(listing.paths[place]) for place in plan.candidate]
    assert found == _as_image_folder(tmp_path)


def test_sorted_order_is_path_order() -> None:
    assert _plan(_listing(30), ConvertOptions(order="sorted")).candidate.tolist() == list(range(30))


def test_default_order_mixes_classes() -> None:
    """Batches of a class-sorted source must hold many classes, as batches are shuffled whole."""
    listing = _listing(7 * 128)
    labels = _plan(listing, ConvertOptions()).label.reshape(-1, 128)
    assert min(len(set(batch.tolist())) for batch in labels) == 7


def test_stems_and_number_of_shards() -> None:
    plan = _plan(_listing(1000, size=1000), ConvertOptions(batch_size=10, shard_size=100_000))
    assert [shard.stem for shard in plan.shards()][:2] == ["train-000000", "train-000001"]
    assert len(list(plan.shards())) == 10


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        (ConvertOptions(), 37_000, 37_000),
        (ConvertOptions(resize="256"), 15_000, 35_000),
        (ConvertOptions(resize="256", subsampling="4:4:4", quality=95), 30_000, 60_000),
        (ConvertOptions(resize="256", resize_mode="crop", codec="raw"), 196_608, 196_608),
        (ConvertOptions(resize="256", codec="png"), 100_000, 200_000),
    ],
)
def test_estimated_bytes(options: ConvertOptions, low: int, high: int) -> None:
    assert low <= estimate_bytes(options.image, 37_000) <= high


def test_listing_digest_tells_paths_and_sizes_apart() -> None:
    one = Listing([b"a", b"bc"], np.array([1, 2]), np.zeros(2), [])
    others = [
        Listing([b"ab", b"c"], np.array([1, 2]), np.zeros(2), []),
        Listing([b"a", b"bc"], np.array([1, 3]), np.zeros(2), []),
        Listing([b"a"], np.array([1]), np.zeros(1), []),
    ]
    digests = {listing_digest(listing) for listing in [one, *others]}
    assert len(digests) == 4
    later = Listing([b"a", b"bc"], np.array([1, 2]), np.ones(2), [os.fsencode("x")])
    assert listing_digest(later) == listing_digest(one)
