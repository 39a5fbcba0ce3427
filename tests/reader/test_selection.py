from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from packer.errors import UsageError
from packer.reader import BatchStream, PackedDataset, WindowSampler
from packer.reader.selection import of_fraction
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 0, 4], [3], [4, 9]]
TOTAL = 24


def keys_of(stream: Any) -> list[str]:
    return [key for (keys,) in stream for key in keys]


@given(mask=st.lists(st.booleans(), min_size=TOTAL, max_size=TOTAL))
@settings(max_examples=40, deadline=None)
def test_any_selection_reads_as_a_pack_of_its_samples(pack_root: Path, mask: list[bool]) -> None:
    """By index and in every order of a stream: each selected sample once, with its own pixels."""
    whole = PackedDataset(pack_root, decode="numpy")
    part = whole.select(samples=np.array(mask))
    chosen = np.flatnonzero(mask).tolist()
    assert len(part) == len(chosen)
    assert part.keys == [whole.keys[i] for i in chosen]
    assert part.targets.tolist() == [int(whole.targets[i]) for i in chosen]
    for place, sample in enumerate(chosen):
        assert np.array_equal(part[place][0], whole[sample][0])
    for shuffle in ("none", "batch", "window", "full"):
        stream = BatchStream(part, 5, shuffle=shuffle, window=2, tail="keep", fields=["key"])
        assert sorted(keys_of(stream)) == sorted(part.keys)


@pytest.fixture(scope="module")
def pack_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from packer.settings.options import ConvertOptions
    from packer.writer import PackWriter

    root = tmp_path_factory.mktemp("selection") / "pack"
    options = ConvertOptions(codec="png", batch_size=5, shard_size=1500)
    with PackWriter(root, classes=["a", "b", "c"], options=options) as writer:
        for number in range(TOTAL):
            pixels = np.full((8, 8, 3), 10 * number, np.uint8)
            writer.write(image=pixels, key=f"{number}.png", label=number % 3)
    return root


def test_every_format_and_field(build_pack: BuildPack, format_name: str) -> None:
    built = build_pack(SHARDS, format_name, extra=True)
    dataset = PackedDataset(built.root).select(samples=[23, 2, 3, 11])
    stream = BatchStream(dataset, 4, shuffle="none", fields=("key", "image", "note", "label"))
    [(keys, images, notes, labels)] = list(stream)
    assert keys == [built.keys[sample] for sample in (2, 3, 11, 23)]
    for place, sample in enumerate((2, 3, 11, 23)):
        assert np.array_equal(images[place].permute(1, 2, 0), built.pixels[sample])
        assert notes[place] == built.samples[sample].payloads.get("note")
        assert int(labels[place]) == built.labels[sample]


def test_classes_by_name_and_label(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root)
    part = dataset.select(classes=["class1", 4])
    assert Counter(part.targets.tolist()) == Counter(
        label for label in built.labels if label in (1, 4)
    )
    assert part.classes == dataset.classes  # a label means what it meant
    assert len(dataset.select(classes=[-1])) == 0


def test_fractions_share_nothing_and_leave_nothing_out(build_pack: BuildPack) -> None:
    built = build_pack([[50] * 4])
    dataset = PackedDataset(built.root)
    parts = [dataset.select(fraction=part) for part in (0.25, (0.25, 0.6), (0.6, 1.0))]
    keys = [list(part.keys) for part in parts]
    assert sorted(key for some in keys for key in some) == sorted(built.keys)
    for part, share in zip(parts, (0.25, 0.35, 0.4), strict=True):
        assert set(Counter(part.targets.tolist()).values()) == {40 * share}  # exact in each class
    assert keys[0] != sorted(built.keys)[:50]
    assert list(dataset.select(fraction=0.25).keys) == keys[0]
    assert list(dataset.select(fraction=0.25, seed=1).keys) != keys[0]
    # Of some classes: the same samples as of all of them.
    assert set(dataset.select(classes=[2], fraction=0.25).keys) <= set(keys[0])


@given(
    labels=st.lists(st.integers(-1, 9), max_size=150)
    | st.lists(st.integers(0, 500), max_size=150)
    | st.integers(1, 25).map(lambda count: list(range(6)) * count),
    folds=st.integers(2, 10),
    seed=st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_folds_are_of_one_size_and_stratified(labels: list[int], folds: int, seed: int) -> None:
    count = len(labels)
    rows: dict[str, Any] = {"label": np.array(labels, np.int32), "slot": np.arange(count)[::-1] * 3}
    pack: Any = SimpleNamespace(index=rows)
    masks = [of_fraction(pack, (k / folds, (k + 1) / folds), seed) for k in range(folds)]
    assert np.sum(masks, axis=0).tolist() == [1] * count  # each sample in one of them
    sizes = [int(mask.sum()) for mask in masks]
    assert max(sizes) - min(sizes) <= 1
    for label, size in Counter(labels).items():
        for mask in masks:
            assert abs(np.count_nonzero(rows["label"][mask] == label) - size / folds) <= 3
    equal = len(set(Counter(labels).values())) == 1
    if equal:  # classes of one size: as even as whole numbers can be
        for label, size in Counter(labels).items():
            for mask in masks:
                assert abs(np.count_nonzero(rows["label"][mask] == label) - size / folds) <= 1


def test_the_first_ones_and_conditions_together(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    dataset = PackedDataset(built.root)
    assert dataset.select(first=5).keys == built.keys[:5]
    assert len(dataset.select(first=99)) == TOTAL
    part = dataset.select(samples=range(10, 24), classes=[1, 2], first=3)
    assert part.keys == [built.keys[sample] for sample in (11, 12, 16)]
    assert part.select(samples=[1]).keys == [built.keys[12]]  # of a selection


def test_the_sampler_and_workers_number_alike(build_pack: BuildPack) -> None:
    built = build_pack(SHARDS)
    part = PackedDataset(built.root, decode="numpy").select(samples=range(1, 24, 2))
    stream = BatchStream(part, 3, window=2, fields=["key"])
    expected = [batch for (batch,) in stream]
    sampler = WindowSampler(part, 3, window=2)
    assert [[part.keys[sample] for sample in samples] for samples in sampler] == expected
    for context in ("fork", "forkserver"):
        loader: Any = DataLoader(
            stream, batch_size=None, num_workers=2, multiprocessing_context=context
        )
        stream.set_epoch(0)
        assert [batch for (batch,) in loader] == expected


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"classes": ["clas1"]}, "unknown class 'clas1'.*did you mean"),
        ({"classes": [5]}, "label 5 is none of 5 classes"),
        ({"fraction": 1.5}, "invalid fraction 1.5"),
        ({"fraction": (0.5, 0.2)}, "invalid fraction"),
        ({"samples": [24]}, "there are 24"),
        ({"samples": [-1]}, "there are 24"),
        ({"samples": [3, 3]}, "3 is there twice"),
        ({"samples": [0.5]}, "neither sample numbers nor a mask"),
        ({"samples": [True, False]}, "a mask of shape .* for 24 samples"),
    ],
)
def test_what_cannot_be_is_refused(
    build_pack: BuildPack, conditions: dict[str, Any], words: str
) -> None:
    dataset = PackedDataset(build_pack(SHARDS).root)
    with pytest.raises(UsageError, match=words):
        dataset.select(**conditions)
