from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from packer.errors import UsageError
from packer.reader import BatchStream, MixedStream, PackedDataset
from packer.reader.mix import apportion

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]


def streams_of(build_pack: Any, sizes: dict[str, int], **more: Any) -> list[BatchStream]:
    """A stream a name, over a pack of so many samples; its keys end in the name."""
    options: dict[str, Any] = {"batch_size": 2, "fields": ["key"], "window": 2} | more
    streams = []
    for name, size in sizes.items():
        built = build_pack([[4] * (size // 4) + [size % 4]], name=name)
        dataset = PackedDataset(built.root, decode="bytes")
        streams.append(BatchStream(dataset, **options))
    return streams


def test_without_weights_all_of_each_once(build_pack: Any) -> None:
    streams = streams_of(build_pack, {"a": 12, "b": 20}, fields=["label", "key"])
    mixed = MixedStream(streams, seed=3)
    assert len(mixed) == 6 + 10
    assert mixed.counts.tolist() == [6, 10]
    seen: Counter[str] = Counter()
    for _, keys in mixed:
        seen.update(keys)
    assert sum(seen.values()) == 32
    assert set(seen.values()) == {1, 2}  # the packs' keys are alike: 12 of them are in both
    assert Counter(mixed.sources(0).tolist()) == {0: 6, 1: 10}
    assert mixed.sources(0).tolist() != sorted(mixed.sources(0).tolist())


def test_order_depends_on_seed_and_epoch_alone(build_pack: Any) -> None:
    streams = streams_of(build_pack, {"a": 12, "b": 20})
    mixed = MixedStream(streams, weights=[1, 1])
    epochs = []
    for epoch in range(3):
        mixed.set_epoch(epoch)
        assert mixed.epoch == epoch
        epochs.append(list(mixed))
        assert mixed.epoch == epoch + 1
        for workers in (1, 3):
            mixed.set_epoch(epoch)
            loader: Any = DataLoader(
                mixed, batch_size=None, num_workers=workers, multiprocessing_context="fork"
            )
            assert [tuple(batch) for batch in loader] == epochs[-1]
    assert len({str(epoch) for epoch in epochs}) == 3
    again = MixedStream(streams, weights=[1, 1])
    assert [list(again) for _ in range(3)] == epochs  # by themselves
    assert list(MixedStream(streams, weights=[1, 1], seed=1)) != epochs[0]


def test_with_weights_a_stream_goes_on_where_it_stopped(build_pack: Any) -> None:
    """Over epochs each sample is seen once before any is seen twice."""
    streams = streams_of(build_pack, {"a": 8, "b": 40})
    mixed = MixedStream(streams, weights=[0.5, 0.5])
    assert mixed.counts.tolist() == [4, 4]
    from_b = []
    for epoch in range(10):
        mixed.set_epoch(epoch)
        sources = mixed.sources(epoch)
        from_b += [keys for (keys,), source in zip(mixed, sources, strict=True) if source == 1]
    streams[1].set_epoch(0)
    first = [keys for (keys,) in streams[1]]
    streams[1].set_epoch(1)
    second = [keys for (keys,) in streams[1]]
    assert from_b == first + second


def test_a_short_stream_is_repeated_where_length_asks_for_it(build_pack: Any) -> None:
    streams = streams_of(build_pack, {"a": 4, "b": 40})
    mixed = MixedStream(streams, weights=[1, 3], length=20)
    assert (len(mixed), mixed.counts.tolist()) == (20, [5, 15])
    assert len(list(mixed)) == 20
    assert MixedStream(streams, weights=[0, 1]).counts.tolist() == [0, 20]


def test_ranks_take_the_same_stream_at_each_step(build_pack: Any) -> None:
    datasets = [
        PackedDataset(build_pack([[4] * count], name=f"of{count}").root, decode="bytes")
        for count in (5, 9)
    ]
    seen: list[str] = []
    sources = []
    for rank in range(3):
        mixed = MixedStream(
            [
                BatchStream(dataset, 2, rank=rank, world_size=3, fields=["key"])
                for dataset in datasets
            ]
        )
        assert mixed.counts.tolist() == [3, 6]
        sources.append(mixed.sources(0).tolist())
        for (keys,), source in zip(mixed, sources[-1], strict=True):
            seen += keys if source == 1 else []
    assert sources[0] == sources[1] == sources[2]
    assert len(seen) == len(set(seen)) == 36


@given(
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any),
    total=st.integers(0, 1000),
)
@settings(max_examples=100, deadline=None)
def test_shares_are_exact_to_one(weights: list[int], total: int) -> None:
    shares = np.array(weights) / sum(weights)
    counts = apportion(shares, total)
    assert counts.sum() == total
    assert (np.abs(counts - shares * total) < 1).all()


def test_what_cannot_be_is_refused(build_pack: Any) -> None:
    [one] = streams_of(build_pack, {"a": 8})
    dataset = one.dataset
    other = BatchStream(dataset, 2, fields=["label"])
    second = BatchStream(dataset, 2, fields=["key"], rank=1, world_size=2)
    keep = BatchStream(dataset, 2, fields=["key"], rank=0, world_size=2, tail="keep")
    cases: list[tuple[list[BatchStream], dict[str, Any], str]] = [
        ([], {}, "no streams"),
        ([one, other], {}, "the same fields"),
        ([one, second], {}, "different ranks"),
        ([keep], {}, "tail='keep'"),
        ([one, one], {"weights": [1]}, "1 weights for 2 streams"),
        ([one], {"weights": [-1]}, "invalid weights"),
        ([one], {"weights": [float("nan")]}, "invalid weights"),
        ([one], {"length": 0}, "0 wanted"),
    ]
    for streams, options, words in cases:
        with pytest.raises(UsageError, match=words):
            MixedStream(streams, **options)
