from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from packer.reader.order.record import EpochRecord, Origin, Reader, never
from packer.reader.order.statedict import Place

COUNTED, RESUMED, CHOSEN = Origin.COUNTED, Origin.RESUMED, Origin.CHOSEN


def at_90(position: int) -> bool:
    return position >= 90


def begin_loop(record: EpochRecord) -> None:
    record.take(record.next(at_90), 4)


#: Each arrow of the module's diagram: origin, epoch and start before it, and after it.
ARROWS: list[tuple[tuple[Origin, int, int], Callable[[EpochRecord], None], tuple[Origin, int, int]]]
ARROWS = [
    ((COUNTED, 2, 0), begin_loop, (COUNTED, 3, 0)),
    ((RESUMED, 2, 40), begin_loop, (COUNTED, 3, 0)),
    ((RESUMED, 2, 90), begin_loop, (COUNTED, 4, 0)),
    ((CHOSEN, 2, 90), begin_loop, (COUNTED, 3, 0)),
    ((COUNTED, 2, 0), lambda record: record.choose(5), (CHOSEN, 5, 0)),
    ((RESUMED, 2, 40), lambda record: record.choose(2), (CHOSEN, 2, 40)),
    ((RESUMED, 2, 40), lambda record: record.choose(3), (CHOSEN, 3, 0)),
    ((CHOSEN, 2, 40), lambda record: record.choose(3), (CHOSEN, 3, 0)),
    ((COUNTED, 2, 0), lambda record: record.resume(Place(2, 40)), (RESUMED, 2, 40)),
    ((RESUMED, 2, 40), lambda record: record.resume(Place(3, 0)), (RESUMED, 3, 0)),
    ((CHOSEN, 2, 0), lambda record: record.resume(Place(2, 40)), (CHOSEN, 2, 40)),
    ((CHOSEN, 2, 0), lambda record: record.resume(Place(3, 40)), (RESUMED, 3, 40)),
    ((COUNTED, 2, 0), lambda record: record.advance(5, at_90), (COUNTED, 5, 0)),
    ((COUNTED, 2, 0), lambda record: record.advance(1, at_90), (COUNTED, 2, 0)),
    ((RESUMED, 2, 0), lambda record: record.advance(5, at_90), (RESUMED, 2, 0)),
    ((CHOSEN, 2, 0), lambda record: record.advance(5, at_90), (CHOSEN, 2, 0)),
]


@pytest.mark.parametrize(("before", "change", "after"), ARROWS)
def test_where_the_next_loop_begins(
    before: tuple[Origin, int, int],
    change: Callable[[EpochRecord], None],
    after: tuple[Origin, int, int],
) -> None:
    record = EpochRecord()
    record.origin, record.epoch, record.start = before
    change(record)
    assert (record.origin, record.epoch, record.start) == after


def test_the_next_place() -> None:
    record = EpochRecord()
    assert record.next(at_90) == Place(0, 0)
    record.resume(Place(2, 40))
    assert record.next(at_90) == Place(2, 40)
    record.resume(Place(2, 90))
    assert record.next(at_90) == Place(3, 0)
    assert record.next(never) == Place(2, 90)
    record.choose(2)
    assert record.next(at_90) == Place(2, 90)


def test_the_last_loop() -> None:
    record = EpochRecord()
    record.reader = Reader.WORKERS
    record.take(Place(2, 40), 8)
    assert (record.last_epoch, record.last_start, record.last_stride) == (2, 40, 8)
    record.choose(7)
    assert (record.last_stride, record.reader) == (0, Reader.ITSELF)


@pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")
def test_a_forked_process_shares_it_and_a_copy_does_not() -> None:
    record = EpochRecord()
    copy = record.copy()
    child = os.fork()
    if child == 0:
        with record.locked():
            record.choose(5)
        os._exit(0)
    os.waitpid(child, 0)
    assert (record.epoch, copy.epoch) == (5, 0)
