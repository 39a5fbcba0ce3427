from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from packer.reader.batches.draft import Made
from packer.reader.batches.material import Wanted
from packer.reader.images.layout import Layout
from packer.reader.loading.device import Device, Sent
from packer.reader.loading.prefetch import Prefetch
from packer.reader.loading.sheets import HeapSheets

pytestmark = pytest.mark.slow


class Slow:
    """Makes what it is asked for when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.results: list[Future[Made]] = []
        self.sheets: list[Any] = []
        self.closed = 0

    def submit(self, wanted: Wanted, sheet: Any) -> Future[Made]:
        self.asked.append(wanted.step)
        self.sheets.append(sheet)
        self.results.append(Future())
        return self.results[-1]

    def finish(self, step: int) -> None:
        if self.sheets[step] is not None:
            self.sheets[step].array[:] = step
        self.results[step].set_result(Made({"step": step}, in_sheet=2))

    def close(self) -> None:
        self.closed += 1


def wanted(count: int) -> list[Wanted]:
    return [Wanted(0, 0, step) for step in range(count)]


def test_so_many_are_under_way_and_no_more() -> None:
    source = Slow()
    loop = Prefetch(source, None, wanted(5), 2, Device(None))
    assert source.asked == [0, 1]
    source.finish(1)
    source.finish(0)
    assert next(loop)["step"] == 0
    assert source.asked == [0, 1, 2]
    assert next(loop)["step"] == 1
    for step in (2, 3, 4):
        source.finish(step)
        assert next(loop)["step"] == step
    assert source.asked == [0, 1, 2, 3, 4]
    assert source.closed == 0
    assert list(loop) == []
    assert source.closed == 1


def test_pictures_become_tensors_over_their_sheet() -> None:
    source = Slow()
    loop = Prefetch(source, HeapSheets(Layout(3, 1, 1, "uint8"), 2), wanted(2), 1, Device(None))
    source.finish(0)
    first = next(loop)["image"]
    source.finish(1)
    second = next(loop)["image"]
    assert first.flatten().tolist() == [0] * 6
    assert second.flatten().tolist() == [1] * 6


def test_on_their_way_to_a_device_before_they_are_asked_for() -> None:
    source, sent = Slow(), []

    class Noting(Device):
        def send(self, columns: dict[str, Any]) -> Sent:
            sent.append(columns["step"])
            return super().send(columns)

    loop = Prefetch(source, None, wanted(4), 3, Noting("cpu"))
    for step in (0, 1):
        source.finish(step)
    next(loop)
    assert sent == [0, 1]
    source.finish(2)
    next(loop)
    assert sent == [0, 1, 2]


def test_an_error_waits_for_its_turn_and_ends_the_loop() -> None:
    source = Slow()
    loop = Prefetch(source, None, wanted(5), 3, Device(None))
    source.results[1].set_exception(ValueError("second"))
    source.finish(0)
    source.finish(2)
    assert next(loop)["step"] == 0
    with pytest.raises(ValueError, match="second"):
        next(loop)
    assert source.closed == 1
    assert list(loop) == []


def test_dropping_it_closes_the_source() -> None:
    source = Slow()
    loop = Prefetch(source, None, wanted(5), 3, Device(None))
    del loop
    assert source.closed == 1
