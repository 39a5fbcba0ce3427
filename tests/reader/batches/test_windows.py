from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packer.pack.opened import Pack
from packer.pack.payloads import Payloads, Span
from packer.reader.batches.windows import WindowBuffer, _spread
from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule
from packer.types import Array
from tests.packs import BuildPack

BATCHES = [4] * 6


class Log:
    """What a Payloads is asked for: batches announced and read, samples read one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans: list[int] = []
        self.announced: list[int] = []
        self.alone: list[int] = []
        real_span, real_read = Payloads.span, Payloads.read

        def span(payloads: Payloads, batch: int) -> Span:
            assert batch in self.announced
            self.spans.append(batch)
            return real_span(payloads, batch)

        def read(
            payloads: Payloads, samples: Array, field: str, announced: bool = False
        ) -> list[memoryview | None]:
            self.alone += samples.tolist()
            return real_read(payloads, samples, field, announced)

        monkeypatch.setattr(Payloads, "span", span)
        monkeypatch.setattr(Payloads, "read", read)
        monkeypatch.setattr(
            Payloads, "advise", lambda _, batches: self.announced.extend(batches.tolist())
        )


def walk(built: Any, options: OrderOptions, start: int = 0, workers: int = 1) -> WindowBuffer:
    """Reads an epoch as the first of some workers does, from a position on."""
    pack = Pack(built.root)
    plan = Schedule(pack.index["batch_count"], pack.index["batch_bytes"], options)
    order = plan.order(0)
    payloads = Payloads(pack)
    buffer = WindowBuffer(payloads, order, options.rank, options.world_size, workers)
    for step in range(0, plan.steps(start), workers):
        buffer.enter(*plan.span(step, start))
        samples = plan.mini_batch(order, step, start)
        stored = [built.samples[sample].payloads["image"] for sample in samples]
        assert buffer.read(samples, "image") == stored
        assert len(buffer._spans) <= max(2 * options.window, 1 + options.batch_size // 4 + 1)
    return buffer


@pytest.mark.parametrize("shuffle", ["none", "batch", "window"])
@pytest.mark.parametrize("size", [1, 5, 24, 48])
def test_each_batch_is_announced_then_read_once(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, shuffle: str, size: int
) -> None:
    built = build_pack([BATCHES, BATCHES])
    log = Log(monkeypatch)
    buffer = walk(built, OrderOptions(size, shuffle, 3, tail="keep"))
    assert sorted(log.spans) == sorted(log.announced) == list(range(12))
    assert log.alone == []
    buffer.enter(48, 48)
    assert len(buffer._spans) == 0


def test_full_reads_sample_by_sample(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch)
    walk(build_pack([BATCHES, BATCHES]), OrderOptions(5, "full", tail="keep"))
    assert log.spans == log.announced == []
    assert sorted(log.alone) == list(range(48))


@pytest.mark.parametrize("shuffle", ["none", "batch"])
def test_ranks_read_stretches_of_batches_in_packed_order(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    """Mini-batches of 3 over on-disk batches of 4: no rank reads what is another's."""
    built = build_pack([BATCHES, BATCHES])
    log = Log(monkeypatch)
    for rank in range(2):
        walk(built, OrderOptions(3, shuffle, tail="keep", rank=rank, world_size=2))
    assert log.spans == []
    assert sorted(log.alone) == list(range(48))


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_have_batches_of_their_own(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, world: int
) -> None:
    built = build_pack([[4] * 8, [4] * 8])
    log = Log(monkeypatch)
    for rank in range(world):
        walk(built, OrderOptions(3, "window", 4, tail="pad", rank=rank, world_size=world))
    assert sorted(log.spans) == list(range(16))
    assert len(log.alone) <= 3 * world  # the padded end


def test_what_lies_before_the_start_is_not_read(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone on with in mid-epoch: batches that are through are neither announced nor read."""
    built = build_pack([[4] * 8, [4] * 8])
    log = Log(monkeypatch)
    walk(built, OrderOptions(4, "window", 4), start=32)
    assert len(log.announced) == len(log.spans) == 8


@pytest.mark.parametrize("shuffle", ["none", "batch", "window"])
def test_one_of_several_workers_reads_its_own_and_announces_batches(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    """The storage sees whole batches; the worker copies, and holds, no more than it uses."""
    built = build_pack([[4] * 8, [4] * 8])
    log = Log(monkeypatch)
    buffer = walk(built, OrderOptions(4, shuffle, 2), workers=3)
    assert {sample // 4 for sample in log.alone} <= set(log.announced)
    assert len(set(log.announced)) == len(log.announced)
    assert log.spans == []
    assert len(set(log.alone)) == len(log.alone) == 24
    assert len(buffer._spans) == 0


def test_a_field_that_some_lack(build_pack: BuildPack) -> None:
    built = build_pack([[4, 4]], extra=True)
    pack = Pack(built.root)
    plan = Schedule(pack.index["batch_count"], pack.index["batch_bytes"], OrderOptions(8))
    order = plan.order(0)
    buffer = WindowBuffer(Payloads(pack), order, 0, 1)
    buffer.enter(0, 8)
    samples = np.arange(8)
    assert buffer.read(samples, "note") == [sample.payloads.get("note") for sample in built.samples]


def test_a_window_is_announced_bit_by_bit() -> None:
    """Never later than half a round before it is needed, never in one go, in order of need."""
    first = np.array([0, 1, 2, 3, 40, 40, 41, 42, 80, 81, 82, 83])
    due = _spread(first, 40, 4)
    assert (due <= first - 20).all() and (due >= first - 40).all()
    assert (np.diff(due) >= 0).all()
    assert np.diff(due[4:8]).min() >= 5 and np.diff(due[8:]).min() >= 5
    assert (_spread(first, 1, 1) == first - 1).all()  # one lane: the next batch, as ever
