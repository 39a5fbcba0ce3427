from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer import registry
from packer.errors import OutputError
from packer.packing.planning.agreement import image_fields
from packer.packing.planning.plan import ShardPlan
from packer.packing.shards.batch import BatchResult
from packer.packing.shards.making import ShardTarget, make_shard
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import read_shard_state
from packer.types import Sample, Skip

FORMATS = registry.names("formats")


def _sample(slot: int) -> Sample:
    payloads = {"image": bytes([slot]) * (slot + 1)}
    return Sample(slot=slot, path=b"a/%d.jpg" % slot, label=0, width=2, height=3, payloads=payloads)


def _target(out: Path, format_name: str = "tar") -> ShardTarget:
    (out / WORK_FOLDER).mkdir(parents=True, exist_ok=True)
    extension = registry.load("formats", format_name).EXTENSION
    plan = ShardPlan("train", "train-000000", ((0, 4), (4, 6)))
    return ShardTarget(
        out, plan, f"train-000000.{extension}", format_name, image_fields("jpeg"), False, "x y"
    )


def _whole() -> Iterator[BatchResult]:
    """Two batches, of which the second one lacks a sample."""
    yield BatchResult([_sample(slot) for slot in range(4)], notes=Counter(gray=1))
    yield BatchResult([_sample(5)], [Skip(4, b"a/4.jpg", "empty", "0 bytes")], Counter(gray=2))


def _pieces() -> Iterator[BatchResult]:
    first, second = _whole()
    yield BatchResult(first.samples[:1], notes=first.notes, ends=False)
    yield BatchResult(first.samples[1:])
    yield second
    raise AssertionError("asked for more than this shard's batches")


@pytest.mark.parametrize("format_name", FORMATS)
def test_whole_batches_and_pieces_give_the_same_shard(tmp_path: Path, format_name: str) -> None:
    heard: list[int] = []
    states = []
    for name, results in (("whole", _whole()), ("pieces", _pieces())):
        target = _target(tmp_path / name, format_name)
        states.append(make_shard(target, results, lambda result: heard.append(len(result.samples))))
    assert heard == [4, 1, 1, 3, 1]
    assert states[0] == states[1] == read_shard_state(tmp_path / "whole", "train-000000")
    assert states[0].notes == {"gray": 3}
    assert [skip.slot for skip in states[0].skips] == [4]
    assert (states[0].record.samples, states[0].record.batches) == (5, 2)
    names = {path.name for path in (tmp_path / "whole").iterdir() if path.is_file()}
    assert names == {states[0].record.name, "train-000000.index"}
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "pieces" / name).read_bytes()


@pytest.mark.parametrize("format_name", FORMATS)
def test_who_hears_can_end_it_and_nothing_is_left(tmp_path: Path, format_name: str) -> None:
    heard = 0

    def stop(result: BatchResult) -> None:
        nonlocal heard
        heard += 1
        if heard == 2:
            raise OutputError("the run is over")

    with pytest.raises(OutputError, match="the run is over"):
        make_shard(_target(tmp_path, format_name), _whole(), stop)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
