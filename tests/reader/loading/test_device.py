from __future__ import annotations

import pickle

import pytest
import torch

from packer.errors import UsageError
from packer.reader.loading.device import Device

pytestmark = pytest.mark.slow

COLUMNS = {"image": torch.arange(6), "label": [torch.ones(2), torch.zeros(1)], "key": ["a", "b"]}


@pytest.mark.parametrize("name", [None, "cpu", torch.device("cpu")])
def test_main_memory_is_where_they_are(name: str | torch.device | None) -> None:
    device = Device(name)
    assert device.receive(device.send(COLUMNS)) is COLUMNS
    assert not device.cuda


def test_tensors_move_and_others_stay() -> None:
    """To the one other device that every torch has."""
    device = Device("meta")
    columns = device.receive(device.send(COLUMNS))
    assert columns["image"].device.type == "meta"
    assert [tensor.device.type for tensor in columns["label"]] == ["meta"] * 2
    assert columns["key"] == ["a", "b"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", torch.device("cuda")])
def test_no_cuda_is_said_at_once(name: str | torch.device) -> None:
    with pytest.raises(UsageError, match="finds no CUDA device"):
        Device(name)


def test_no_such_device() -> None:
    with pytest.raises(UsageError, match="device 'gpu'"):
        Device("gpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_to_a_cuda_device() -> None:
    device = pickle.loads(pickle.dumps(Device("cuda")))
    sent = device.send({"image": torch.arange(1000).pin_memory(), "key": ["a"]})
    columns = device.receive(sent)
    assert columns["image"].is_cuda
    assert columns["image"].sum().item() == 499500


def test_a_device_pickles() -> None:
    assert pickle.loads(pickle.dumps(Device("meta"))).device == torch.device("meta")
