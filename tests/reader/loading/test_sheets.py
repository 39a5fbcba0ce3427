from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from packer.reader.images.layout import Layout
from packer.reader.loading.sheets import HeapSheets, Lending, PinnedSheets

pytestmark = pytest.mark.slow

LAYOUT = Layout(4, 6, 8, "uint8")


def written(sheets: HeapSheets, value: int, count: int = 4) -> torch.Tensor:
    sheet = sheets.take()
    sheet.array[:] = value
    return sheet.tensor(count)


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_what_is_written_is_seen(planes: bool, dtype: str) -> None:
    layout = Layout(4, 6, 8, dtype, planes)
    sheet = HeapSheets(layout, 2).take()
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 8, 3)).astype(dtype)
    sheet.array[:] = pixels.transpose(0, 3, 1, 2) if planes else pixels
    tensor = sheet.tensor(3)
    assert (str(tensor.dtype), tuple(tensor.shape)) == (f"torch.{dtype}", (3, 3, 6, 8))
    assert np.array_equal(tensor.permute(0, 2, 3, 1), pixels[:3])
    kind = torch.contiguous_format if planes else torch.channels_last
    assert tensor.is_contiguous(memory_format=kind)
    assert sheet.array.nbytes == layout.nbytes


def test_memory_is_used_again() -> None:
    sheets = HeapSheets(LAYOUT, 2)
    places = {written(sheets, number).data_ptr() for number in range(10)}
    assert len(places) == 1


def views(tensor: torch.Tensor) -> dict[str, Any]:
    """Everything that shows a tensor's memory, by name."""
    return {
        "itself": tensor,
        "view": tensor[1],
        "numpy": tensor[0].numpy(),
        "numpy view": tensor.numpy()[2:3, 0],
        "detached": tensor.detach(),
        "storage": tensor.untyped_storage(),
        "dlpack": np.from_dlpack(tensor),
        "set": torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()),
        "in a list": [{"a": tensor[3, 1]}],
    }


@pytest.mark.parametrize("kind", list(views(torch.zeros(4, 3, 6, 8))))
def test_memory_that_somebody_sees_is_never_used_again(kind: str) -> None:
    sheets = HeapSheets(LAYOUT, 4)
    held = views(written(sheets, 7))[kind]
    others = [written(sheets, 9) for _ in range(6)]
    del others
    for _ in range(6):
        written(sheets, 11)
    if kind == "storage":
        assert set(held.tolist()) == {7}
    else:
        held = held[0]["a"] if kind == "in a list" else held
        assert set(np.asarray(held).ravel().tolist()) == {7}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
def test_nothing_that_is_held_ever_changes(steps: list[tuple[bool, int]]) -> None:
    sheets = HeapSheets(Layout(2, 1, 2, "uint8"), 3)
    held: list[tuple[int, torch.Tensor]] = []
    for number, (take, place) in enumerate(steps):
        if take or not held:
            held.append((number, written(sheets, number, 2)))
        else:
            del held[place % len(held)]
        assert all((tensor == value).all() for value, tensor in held)


def test_no_more_is_kept_than_was_asked_for() -> None:
    sheets = HeapSheets(LAYOUT, 2)
    many = [written(sheets, number) for number in range(8)]
    assert [int(tensor[0, 0, 0, 0]) for tensor in many] == list(range(8))
    lending = sheets._lending
    assert len(lending._lent) == 2  # the other six end with their tensors
    del many
    written(sheets, 8)
    assert len(lending._free) + len(lending._lent) == 2


def test_an_interrupt_cannot_fall_into_what_runs_when_an_array_dies() -> None:
    """Python would print the KeyboardInterrupt of a Ctrl-C and go on."""
    lending = Lending(lambda: "thing", 1)
    array = np.zeros(1)
    lending.lend(lending.take(), array)
    [(reference, _)] = lending._lent.values()
    assert isinstance(reference.__callback__, types.BuiltinMethodType)


def test_what_is_too_much_is_dropped() -> None:
    dropped: list[str] = []
    lending = Lending(lambda: "thing", 1, dropped.append)
    arrays = [np.zeros(1), np.zeros(1)]
    for array in arrays:
        lending.lend(lending.take(), array)
    assert dropped == ["thing"]
    del arrays, array
    lending.take()
    assert dropped == ["thing"]


def test_tensors_outlive_their_sheets() -> None:
    sheets = HeapSheets(LAYOUT, 2)
    tensor = written(sheets, 5)
    del sheets
    assert (tensor == 5).all()
    del tensor


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pins memory for a GPU")
def test_pinned_memory() -> None:
    sheet = PinnedSheets(LAYOUT).take()
    sheet.array[:] = 3
    tensor = sheet.tensor(2)
    assert tensor.is_pinned()
    assert (tensor == 3).all()
