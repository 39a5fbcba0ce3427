from __future__ import annotations

from pathlib import Path

import pytest

from packer.notes import note_bits
from packer.pack.index import IndexFile
from packer.packing.planning.agreement import image_fields
from packer.packing.shards.shard import WORK_FOLDER
from packer.types import Sample
from packer.writer.split import Finished, SplitTarget, SplitWriter, splits_there


@pytest.fixture
def target(tmp_path: Path) -> SplitTarget:
    (tmp_path / WORK_FOLDER).mkdir()
    return SplitTarget(tmp_path, "tar", image_fields("png"), 2, 1, one_size=False)


def sample(number: int) -> Sample:
    return Sample(number, b"%d.png" % number, -1, 3, 4, {"image": b"png"}, note_bits(["gray"]))


def test_a_later_run_goes_on_behind_finished_shards(target: SplitTarget) -> None:
    first = SplitWriter(target, "train")
    for number in range(5):
        first.add(sample(number))
    first.abandon()  # the fifth waits for another one
    assert splits_there(target) == ["train"]
    second, finished = SplitWriter(target, "train"), Finished()
    second.take_over(finished)
    assert finished.slots == {b"%d.png" % number: number for number in range(4)}
    assert (finished.notes["gray"], finished.size) == (4, (3, 4))
    second.add(sample(4))
    second.flush()
    assert [record.name for record in second.records] == [f"train-00000{i}.tar" for i in range(3)]
    assert IndexFile(target.out / "train-000002.index")["slot"].tolist() == [4]
    second.remove()
    assert [path.name for path in target.out.iterdir()] == [WORK_FOLDER]


def test_a_shard_without_its_state_does_not_count(target: SplitTarget) -> None:
    writer = SplitWriter(target, "val")
    writer.add(sample(0))
    writer.flush()
    (target.out / WORK_FOLDER / "val-000000.json").unlink()
    assert splits_there(target) == []


def test_nothing_is_there_at_first(target: SplitTarget) -> None:
    finished = Finished()
    SplitWriter(target, "train").take_over(finished)
    assert (finished, splits_there(target)) == (Finished(), [])
