"""Functions that run on workers, called in this process; test_real.py has a real cluster."""

from __future__ import annotations

import dataclasses
import os
import pickle
import re
import threading
from pathlib import Path

import pytest

from packer.errors import OutputError, PackerError, SourceError, UsageError
from packer.imaging.libraries import all_versions
from packer.packing.cluster import remote
from packer.packing.cluster.remote import (
    RemoteTask,
    Terms,
    dead_at,
    look,
    make_remote_shard,
    refusal,
)
from packer.packing.planning.agreement import image_fields
from packer.packing.planning.plan import ShardPlan
from packer.packing.shards.batch import BatchResult, BatchTask, Slot, make_batch
from packer.packing.shards.making import ShardTarget
from packer.packing.shards.shard import WORK_FOLDER
from packer.packing.shards.state import read_shard_state
from packer.settings.options import ImageOptions
from packer.sources import open_source

PATHS = [b"001.class0/001_0001.jpg", b"001.class0/001_0002.jpg", b"002.class1/002_0001.jpg"]


@pytest.fixture
def task(make_tree: object, tmp_path: Path) -> RemoteTask:
    """Three pictures in two batches, for a run that goes on."""
    assert callable(make_tree)
    source = open_source(make_tree(classes=2, each=2))
    source.scan()
    work = tmp_path / "pack" / WORK_FOLDER
    work.mkdir(parents=True)
    (work / "beacon.tmp").write_bytes(b"+")
    terms = Terms(work / "beacon.tmp", all_versions(), source, PATHS[0], look(source, PATHS[0]))
    target = ShardTarget(
        out=work.parent,
        plan=ShardPlan("train", "train-000000", ((0, 2), (2, 3))),
        name="train-000000.tar",
        format="tar",
        fields=image_fields("jpeg"),
        one_size=False,
        stamps="x y",
    )
    slots = [Slot(number, path, 0) for number, path in enumerate(PATHS)]
    images = ImageOptions(size=(32, 32))
    batches = tuple(BatchTask(source, images, tuple(part)) for part in (slots[:2], slots[2:]))
    return RemoteTask(terms, target, batches)


def _left(task: RemoteTask) -> set[str]:
    """Files in OUT/.packer beside the beacon."""
    return {path.name for path in task.terms.beacon.parent.iterdir()} - {"beacon.tmp"}


def test_a_shard_is_made_in_any_thread(task: RemoteTask) -> None:
    """dask's workers run tasks in threads, where no signal handler can be set."""
    found = []
    task = pickle.loads(pickle.dumps(task))
    thread = threading.Thread(target=lambda: found.append(make_remote_shard(task)))
    thread.start()
    thread.join()
    assert found[0].state == read_shard_state(task.target.out, "train-000000")
    assert found[0].state.record.samples == 3
    top = Path(os.fsdecode(task.terms.source.top))  # type: ignore[attr-defined]
    assert found[0].read == sum((top / os.fsdecode(path)).stat().st_size for path in PATHS)
    assert 0 < found[0].written < found[0].state.record.size
    assert _left(task) == {"train-000000.json"}
    assert pickle.loads(pickle.dumps(found[0])) == found[0]


def test_who_agrees_is_not_refused(task: RemoteTask) -> None:
    assert refusal(task.terms) is None


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"libraries": {"packer": "0"}}, UsageError, r"has .* instead of .*, so its pictures"),
        (
            {"libraries": {**all_versions(), "codec gone": "packer-gone 1.0"}},
            UsageError,
            r"has codec gone .* instead of .*packer-gone 1\.0",
        ),
        ({"beacon": Path("/nowhere/beacon")}, OutputError, "does not see the output folder: /nowh"),
        ({"content": "ab"}, SourceError, "does not see the same source: 001.class0/001_0001.jpg: "),
        ({"path": b"gone.jpg"}, SourceError, r"same source: gone.jpg: .*gone.jpg: No such file"),
    ],
)
def test_who_does_not_agree_is_refused_with_machine_and_reason(
    task: RemoteTask, changes: dict[str, object], kind: type[PackerError], message: str
) -> None:
    other = dataclasses.replace(task.terms, **changes)  # type: ignore[arg-type]
    found = refusal(other)
    assert type(found) is kind
    assert found.message.startswith(f"worker on {os.uname().nodename} (process {os.getpid()}): ")
    assert re.search(message, found.message)
    assert found.hint
    assert str(pickle.loads(pickle.dumps(found))) == str(found)
    with pytest.raises(kind, match=message):  # a worker that came later
        make_remote_shard(dataclasses.replace(task, terms=other))
    assert not (task.target.out / task.target.name).exists()


def test_a_file_that_nobody_can_read_is_the_same_for_all(task: RemoteTask) -> None:
    """It is the ledger's, or the run's own error, but no reason to refuse a machine."""
    terms = task.terms
    same = dataclasses.replace(terms, path=b"gone.jpg", content=look(terms.source, b"gone.jpg"))
    assert refusal(same) is None


def test_a_run_that_is_over_is_not_worked_for(
    task: RemoteTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(batch: BatchTask) -> BatchResult:
        task.terms.beacon.unlink()
        return make_batch(batch)

    monkeypatch.setattr(remote, "make_batch", end)
    with pytest.raises(OutputError, match="the run that made it is over"):
        make_remote_shard(task)
    assert _left(task) == set()


def test_what_a_dead_worker_was_at(task: RemoteTask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dead_at(task) is None
    seen = []

    def fall(batch: BatchTask) -> BatchResult:
        seen.append(dead_at(task))  # the mark names the current batch
        return BatchResult()

    monkeypatch.setattr(remote, "make_batch", fall)
    make_remote_shard(task)
    assert seen == ["001.class0/001_0001.jpg, 001.class0/001_0002.jpg", "002.class1/002_0001.jpg"]
    work = task.terms.beacon.parent
    for number, text in enumerate(["", "1", "1"]):
        (work / f"train-000000.at.dead-{number}.tmp").write_text(text)
    (work / "train-000001.at.dead-0.tmp").write_text("0")
    assert dead_at(task) == "002.class1/002_0001.jpg"
