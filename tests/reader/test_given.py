from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from packer.errors import UsageError
from packer.reader import BatchStream, Loader, MixedStream, PackedDataset, WindowSampler
from packer.reader.given import dataset_of, require_dataset
from tests.packs import BuildPack


def loader(dataset: Any, batch_size: int) -> Any:
    return Loader(dataset, batch_size=batch_size)


@pytest.mark.parametrize("make", [BatchStream, WindowSampler, loader])
def test_what_is_no_data_set_is_refused_with_what_to_write(
    build_pack: BuildPack, make: Any
) -> None:
    built = build_pack([[4, 4]])
    dataset: Any = PackedDataset(built.root)
    name = "Loader" if make is loader else make.__name__
    cases: list[tuple[Any, str, str]] = [
        (Subset(dataset, [0]), "Subset", r"dataset\.select\(samples=subset\.indices\)"),
        (ConcatDataset([dataset, dataset]), "ConcatDataset", "MixedStream"),
        (BatchStream(dataset, 2), "BatchStream", "PackedDataset opens it"),
        (TensorDataset(), "TensorDataset", "packer convert"),
    ]
    for given, kind, hint in cases:
        with pytest.raises(UsageError, match=f"^{name} takes a PackedDataset, not {kind} .*{hint}"):
            make(given, 4)
    assert len(make(dataset.select(samples=Subset(dataset, [4, 0]).indices), 2)) == 1


@pytest.mark.parametrize("make", [BatchStream, WindowSampler])
def test_a_path_is_refused_with_the_line_to_write(make: Any) -> None:
    with pytest.raises(
        UsageError, match=rf"not a path \({make.__name__}\(PackedDataset\('data/pack', …\), …\)\)"
    ):
        make("data/pack", 64)


def test_a_data_set_stays(build_pack: BuildPack) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    assert require_dataset(dataset, "Loader") is dataset
    assert dataset_of(dataset, {}) is dataset
    with pytest.raises(UsageError, match="decode, preload given beside a data set"):
        dataset_of(dataset, {"decode": "numpy", "preload": "ram"})


def test_a_folder_is_opened(build_pack: BuildPack) -> None:
    root = build_pack([[4]]).root
    for given in (root, str(root)):
        assert dataset_of(given, {"decode": "bytes"}).decode == "bytes"


@pytest.mark.parametrize("wrap", [lambda dataset: dataset, lambda dataset: [dataset]])
def test_what_cannot_be_mixed(build_pack: BuildPack, wrap: Any) -> None:
    dataset = PackedDataset(build_pack([[4]]).root)
    with pytest.raises(UsageError, match=r"takes streams, not PackedDataset \(MixedStream"):
        MixedStream(wrap(dataset))
