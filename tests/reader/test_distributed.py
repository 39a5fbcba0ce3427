"""Real ranks: processes of torch.distributed on this machine, with a collective at every step."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from packer.reader import BatchStream, PackedDataset
from tests.packs import BuildPack

EXAMPLE = Path(__file__).parents[2] / "scripts" / "examples" / "train_ddp.py"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="needs torch.distributed with gloo",
    ),
]

#: Seconds in which a job is through or, if ranks wait for one another, hangs.
LIMIT = 60


def train(options: dict[str, Any]) -> None:
    """One rank: an epoch or several with an all-reduce a step.

    Writes a line a step, before the next step begins; rank 0 keeps a checkpoint a step. With
    "die_at", all but rank 0 wait from that step on for a collective that never comes, as when a
    node is lost.
    """
    dist.init_process_group("gloo", timeout=timedelta(seconds=50))
    rank, world = dist.get_rank(), dist.get_world_size()
    dataset = PackedDataset(options["pack"], decode="bytes")
    stream = BatchStream(
        dataset, options["stride"] // world, shuffle=options["shuffle"], window=3,
        tail=options["tail"], fields=["key"],
    )  # fmt: skip
    assert stream.schedule.options.rank == rank
    workers: Any = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True}
    loader: Any = DataLoader(stream, batch_size=None, **(workers if options["workers"] else {}))
    checkpoint = Path(options["checkpoint"])
    if checkpoint.exists():
        stream.load_state_dict(json.loads(checkpoint.read_text()))
    with open(f"{options['log']}-{rank}", "a", buffering=1) as log:
        for epoch in range(stream.epoch, options["epochs"]):
            stream.set_epoch(epoch)
            for step, batch in enumerate(loader, 1):
                count = torch.tensor(len(batch.key))
                dist.all_reduce(count)
                if rank == 0:
                    partial = checkpoint.with_suffix(".partial")
                    partial.write_text(json.dumps(stream.state_dict(step=step)))
                    partial.replace(checkpoint)
                dist.barrier()
                log.write(json.dumps([epoch, len(stream), int(count), list(batch.key)]) + "\n")
                if options["die_at"] == step:
                    time.sleep(1000)
    dist.destroy_process_group()


def run_rank(environment: dict[str, str], options: dict[str, Any]) -> None:
    """In a new process: a process group of its own, so that its workers can be killed with it."""
    os.setsid()
    os.environ.update(environment)
    torch.set_num_threads(1)
    train(options)


class Job:
    """Ranks of one training job: processes of the fork server, which has imported torch."""

    def __init__(self, world: int, options: dict[str, Any]) -> None:
        self.log = Path(options["checkpoint"]).with_name(f"log-{time.monotonic_ns()}")
        self.world = world
        environment = {
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        more = {**options, "log": str(self.log)}
        processes = multiprocessing.get_context("forkserver")
        self.ranks = [
            processes.Process(target=run_rank, args=({**environment, "RANK": str(rank)}, more))
            for rank in range(world)
        ]
        for rank in self.ranks:
            rank.start()

    def wait(self) -> None:
        end = time.monotonic() + LIMIT
        try:
            for rank in self.ranks:
                rank.join(max(0.1, end - time.monotonic()))
                assert rank.exitcode == 0  # pytest shows its traceback as captured stderr
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, workers included."""
        for rank in self.ranks:
            if rank.exitcode is None and rank.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(rank.pid, signal.SIGKILL)
                rank.kill()
            rank.join()

    def lines(self) -> list[list[Any]]:
        """Per rank: a list of (epoch, len, samples of all ranks, own keys), a step each."""
        found = []
        for rank in range(self.world):
            path = Path(f"{self.log}-{rank}")
            text = path.read_text() if path.exists() else ""
            found.append([json.loads(line) for line in text.splitlines()])
        return found

    def steps(self) -> Iterator[tuple[int, list[str]]]:
        """The global mini-batches: (epoch, keys of all ranks)."""
        for rows in zip(*self.lines(), strict=True):
            assert len({(epoch, length, count) for epoch, length, count, _ in rows}) == 1
            keys = [key for row in rows for key in row[3]]
            assert len(keys) == rows[0][2]
            yield rows[0][0], keys


def free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def options_of(built: Any, folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "pack": str(built.root), "checkpoint": str(folder / "checkpoint"), "shuffle": "window",
        "tail": "drop", "workers": 0, "epochs": 1, "stride": 12, "die_at": 0, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("world", "shards", "workers", "tail"),
    [
        (2, [[4, 3]], 0, "drop"),  # one shard
        (3, [[9, 9, 9, 1], [4], [2, 0, 2], [7], [1]], 2, "pad"),  # five of unequal size
        (4, [[4, 4, 4, 4], [4, 2]], 0, "pad"),
        (2, [[9, 9, 9, 1], [4], [2, 0, 2], [7], [1]], 2, "drop"),
    ],
)
def test_uneven_packs_hang_no_rank(
    build_pack: BuildPack,
    tmp_path: Path,
    world: int,
    shards: list[list[int]],
    workers: int,
    tail: str,
) -> None:
    """Ranks with different numbers of mini-batches hang: an all-reduce a step, over two epochs;
    also fewer batches or shards than ranks.
    """
    built = build_pack(shards)
    stride = 2 * world if len(built.samples) < 12 else 12
    options = options_of(built, tmp_path, workers=workers, tail=tail, epochs=2, stride=stride)
    job = Job(world, options)
    job.wait()
    steps = list(job.steps())
    total = len(built.samples)
    expected = total // stride if tail == "drop" else -(-total // stride)
    for epoch in range(2):
        mine = [keys for number, keys in steps if number == epoch]
        assert [len(keys) for keys in mine] == [stride] * expected
        seen = {key for keys in mine for key in keys}
        assert len(seen) == (expected * stride if tail == "drop" else total)


@pytest.mark.parametrize(("before", "after", "workers"), [(3, 2, 2), (2, 4, 0)])
def test_killed_and_resumed_on_other_ranks(
    build_pack: BuildPack, tmp_path: Path, before: int, after: int, workers: int
) -> None:
    """A resumed run repeated and skipped samples: after SIGKILL in mid-epoch, the steps are those
    of an unbroken run on one rank.
    """
    built = build_pack([[9, 9, 9, 1], [8, 8], [9, 0, 9, 9]])  # 71 samples: 5 steps of 12 an epoch
    whole = Job(1, options_of(built, tmp_path, checkpoint=str(tmp_path / "other"),
                                        epochs=2))  # fmt: skip
    first = Job(before, options_of(built, tmp_path, epochs=2, workers=workers, die_at=3))
    try:
        end = time.monotonic() + LIMIT
        while not all(len(lines) >= 3 for lines in first.lines()):
            assert time.monotonic() < end, [rank.exitcode for rank in first.ranks]
            time.sleep(0.05)
    finally:
        first.kill()
    whole.wait()
    second = Job(after, options_of(built, tmp_path, epochs=2, workers=workers))
    second.wait()
    assert [*first.steps(), *second.steps()] == list(whole.steps())
    assert len(list(whole.steps())) == 10


def test_the_example_trains_and_goes_on(build_pack: BuildPack, tmp_path: Path) -> None:
    """train_ddp.py under torchrun: 2 ranks for an epoch, 1 rank for another; the first without a
    split to test with.
    """
    built = build_pack([[8, 8], [8, 5]], codec="jpeg", sizes=[(80, 70), (64, 90)])
    output = ""
    for world, epochs in ((2, 1), (1, 2), (2, 2)):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(world), EXAMPLE, built.root),
                *("--checkpoint", tmp_path / "run.pt", "--epochs", str(epochs)),
                *(("--val", "train") if epochs > 1 else ()),
                *("--global-batch-size", "8", "--every", "2", "--size", "48", "--workers", "1"),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=2 * LIMIT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        output += done.stdout
    first, *lines = output.splitlines()
    assert first.startswith("training without validation: the pack has no split 'val'")
    assert [line.split(", loss")[0] for line in lines] == ["epoch 0: 3 steps", "epoch 1: 3 steps"]
    assert ["accuracy" in line for line in lines] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epochs", "0"], "--epochs: 0 is less than 1"),
        (["--global-batch-size", "x"], "--global-batch-size: invalid"),
        (["--batch-size", "8"], "unrecognized arguments: --batch-size"),
        (["--checkpoint", "no/run.pt"], "--checkpoint: there is no folder"),
    ],
)
def test_the_example_refuses_wrong_arguments(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --check as without it; right ones are taken although there is no pack yet."""
    script = str(EXAMPLE)
    for check in ([], ["--check"]):
        monkeypatch.setattr(sys, "argv", [script, "no pack yet", *arguments, *check])
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(script, run_name="__main__")
        assert caught.value.code == 2
        assert said in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [script, "no pack yet", "--epochs", "2", "--check"])
    runpy.run_path(script, run_name="__main__")
    assert capsys.readouterr() == ("", "")


def test_the_example_names_the_splits_that_there_are(build_pack: BuildPack) -> None:
    example = runpy.run_path(str(EXAMPLE))
    options = argparse.Namespace(pack=build_pack([[8, 8]]).root, val="valid")
    with pytest.raises(SystemExit, match="has no split 'valid', only train"):
        example["validation_split"](options)
    options.val = "train"
    assert example["validation_split"](options) == "train"


def test_the_example_keeps_the_global_batch_size(
    build_pack: BuildPack, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 3)
    built = build_pack([[8, 8]], codec="jpeg", sizes=[(80, 70)])
    options = argparse.Namespace(pack=built.root, size=32, global_batch_size=8)
    with pytest.raises(SystemExit, match="--global-batch-size 8 cannot be divided among 3 ranks"):
        example["stream_of"](options, "train")
