from __future__ import annotations

import copy
import operator
import pickle
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.data import WeightedRandomSampler

from packer.pack.opened import Pack
from packer.reader import PackedDataset
from packer.reader.views import Keys, Samples, Targets
from tests.packs import BuildPack, FakePack


def test_behave_like_lists(build_pack: BuildPack) -> None:
    built = build_pack([[3], [4]])
    keys = Keys(Pack(built.root))
    assert len(keys) == 7
    assert list(keys) == built.keys
    assert keys == built.keys
    assert keys != built.keys[:-1]
    assert keys != 3
    assert (keys[-1], keys[2:4]) == (built.keys[-1], built.keys[2:4])
    assert built.keys[3] in keys
    assert keys.index(built.keys[5]) == 5
    for wrong in (7, -8):
        with pytest.raises(IndexError):
            keys[wrong]
    with pytest.raises(TypeError):
        hash(keys)
    assert repr(keys) == f"['{built.keys[0]}', '{built.keys[1]}', '{built.keys[2]}', …] (7 entries)"


def test_samples_pair_path_and_label(build_pack: BuildPack) -> None:
    """Beyond 10 samples, keys sorted as text would pair other labels."""
    built = build_pack([[6], [7]])
    samples = Samples(Pack(built.root))
    assert samples == list(zip(built.keys, built.labels, strict=True))
    assert isinstance(samples[0][1], int)


LABELS = [0, 2, 1, -1, 2]


@pytest.fixture
def targets() -> Targets:
    return Targets(np.array(LABELS, np.int32))


def test_targets_are_a_list(targets: Targets) -> None:
    assert list(targets) == LABELS
    assert {type(label) for label in targets} == {int}
    assert targets == LABELS
    assert targets == copy.copy(targets) == pickle.loads(pickle.dumps(targets))
    assert targets != LABELS[:-1]
    assert targets != [1, *LABELS[1:]]
    assert (targets[1], type(targets[np.int64(1)]), targets[-1]) == (2, int, 2)
    assert targets[1:4] == LABELS[1:4]
    assert (2 in targets, 5 in targets) == (True, False)
    assert (targets.index(-1), targets.count(2)) == (3, 2)
    assert Counter(targets) == Counter(LABELS)
    assert sorted(targets) == sorted(LABELS)
    assert bool(targets)
    assert not targets[:0]
    assert repr(targets) == "[0, 2, 1, …] (5 entries)"
    with pytest.raises(IndexError):
        targets[5]
    with pytest.raises(TypeError):
        hash(targets)
    with pytest.raises(TypeError):
        targets[0] = 1


def test_targets_add_as_lists_do(targets: Targets) -> None:
    assert targets + targets == LABELS + LABELS
    assert targets + LABELS == LABELS + targets == LABELS * 2
    assert sum([targets, targets[:2]], []) == LABELS + LABELS[:2]  # noqa: RUF017 - as users do
    assert targets + ["cat"] == [*LABELS, "cat"]  # noqa: RUF005 - it is what is tested
    assert (targets + targets).tolist() == LABELS * 2
    for multiply in (operator.mul, lambda one, other: other * one):
        with pytest.raises(TypeError, match=r"tolist\(\) \* n"):
            multiply(targets, 2)


def test_targets_are_an_array(targets: Targets) -> None:
    array = np.array(LABELS)
    assert np.array(targets).dtype == np.asarray(targets).dtype == targets.dtype == np.int64
    assert np.array_equal(np.array(targets), array)
    assert np.array(targets, np.float32).dtype == np.float32
    for found, expected in (
        (targets == 2, array == 2),
        (targets != 2, array != 2),
        (targets == array, array == array),
        (targets >= 1, array >= 1),
        (targets + 1, array + 1),
        (1 + targets, 1 + array),
        (targets + array, array + array),
        (targets * 0.5, array * 0.5),
        (-targets, -array),
        (targets[[0, 3]], array[[0, 3]]),
        (targets[array > 0], array[array > 0]),
        (np.unique(targets), np.unique(array)),
        (np.concatenate([targets, targets]), np.concatenate([array, array])),
        (np.arange(9)[targets], np.arange(9)[array]),
        ((targets == 2).astype(float), (array == 2).astype(float)),
    ):
        assert isinstance(found, np.ndarray)
        assert np.array_equal(found, expected)
    assert (targets.tolist(), targets.max(), targets.shape) == (LABELS, 2, (5,))
    with pytest.raises(ValueError, match="read-only"):
        targets.sort()  # of a copy: it would change nothing
    np.array(targets)[0] = 7


def test_targets_in_torch(targets: Targets) -> None:
    for make in (torch.tensor, torch.as_tensor, torch.LongTensor):
        assert make(targets).tolist() == LABELS
    assert torch.tensor(targets).dtype == torch.int64
    positive = targets[:3]
    sampler = WeightedRandomSampler(1 / np.bincount(positive)[positive], 4)
    assert sampler.weights.tolist() == [1, 1, 1]


def test_targets_hold_no_object_a_sample() -> None:
    labels = np.arange(1_000_000, dtype=np.int32)
    targets = Targets(labels)
    assert sum(1 for _ in targets[:10_000]) == 10_000
    assert np.shares_memory(labels, targets[5:]._labels)


@pytest.mark.parametrize("name", ["targets", "samples", "imgs", "keys", "classes", "class_to_idx"])
@pytest.mark.parametrize("selected", [False, True])
def test_an_access_in_a_loop_makes_no_array(fake_pack: FakePack, name: str, selected: bool) -> None:
    """`[dataset.targets[i] for i in indices]` takes time in proportion to `indices` alone."""
    dataset = PackedDataset(fake_pack(200_000, 100))
    if selected:
        dataset = dataset.select(samples=np.arange(100_000))
    index = "class3" if name == "class_to_idx" else 3
    expected = getattr(dataset, name)[index]
    tracemalloc.start()
    try:
        for _ in range(10):
            assert getattr(dataset, name)[index] == expected
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10_000  # bytes; an array of 100,000 labels has 400,000
