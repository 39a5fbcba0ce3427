from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset

from packer.reader import PackedDataset
from packer.reader.torchclass import seen_by_torch
from tests.packs import BuildPack


def test_is_one_of_torchs_data_sets_and_what_it_is(build_pack: BuildPack) -> None:
    dataset: Any = PackedDataset(build_pack([[4, 4]]).root, decode="numpy")
    for one in (dataset, dataset[2:], copy.copy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert isinstance(one, Dataset)
        assert isinstance(one, PackedDataset)
        assert not isinstance(one, IterableDataset)
        assert type(one) is PackedDataset
        assert one.__class__.__name__ == "PackedDataset"
    assert len(DataLoader(dataset, batch_size=3)) == 3


class Own(PackedDataset):
    """A user's own, with a method more."""

    def first(self) -> Any:
        return self[0]


def test_derived_classes_stay(build_pack: BuildPack) -> None:
    dataset = Own(build_pack([[4]]).root, decode="numpy")
    again = pickle.loads(pickle.dumps(dataset))
    assert type(again) is type(copy.deepcopy(dataset)) is type(dataset.select(first=2)) is Own
    assert isinstance(again, Dataset)
    assert (again.first()[0] == dataset[0][0]).all()


LATER = """
import sys
from packer.reader import PackedDataset
dataset = PackedDataset(sys.argv[1])
assert isinstance(dataset, PackedDataset) and dataset.__class__ is PackedDataset
assert "torch" not in sys.modules
import torch
assert isinstance(dataset, torch.utils.data.Dataset) and isinstance(dataset, PackedDataset)
"""


def test_torch_may_be_imported_later(build_pack: BuildPack) -> None:
    root = str(build_pack([[4]]).root)
    subprocess.run([sys.executable, "-c", LATER, root], check=True, timeout=120)


def test_without_torch_it_is_the_class_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.utils.data")
    assert seen_by_torch(Own) is Own
    monkeypatch.setitem(sys.modules, "torch.utils.data", torch.utils.data)
    assert issubclass(seen_by_torch(Own), Own)


def test_adds_as_torchs_data_sets_do(build_pack: BuildPack) -> None:
    built = build_pack([[4, 4]])
    dataset: Any = PackedDataset(built.root, decode="numpy")
    both: Any = dataset + dataset[:3]
    assert isinstance(both, ConcatDataset)
    assert [both[place][1] for place in range(11)] == built.labels + built.labels[:3]
    assert len(both + dataset) == len(dataset + both) == 19
    for wrong in (3, [1].__iter__()):
        try:
            dataset + wrong
        except TypeError as error:
            assert "unsupported operand" in str(error)
        else:
            raise AssertionError(f"adds {wrong}")
