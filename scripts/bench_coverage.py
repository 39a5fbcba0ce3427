"""The part of a data set that training never sees, in few shards over many workers.

    python scripts/bench_coverage.py [--litdata-python PYTHON]

A data set of CHUNKS on-disk batches of 32 samples is read for some epochs by W ranks of one
DataLoader worker each: 18 over 16, and 100 over 64. Ours: `BatchStream`'s order alone, for each
rank, no file is read. LitData's: a data set made by its `optimize`, read by its StreamingDataset
for each rank in turn, shuffled, with drop_last as it is by default on several ranks; PYTHON is that
of an environment with litdata. On a network file system LitData takes a path of its own (a local
folder that it does not copy to a cache): LITDATA_POSIX_FAST=1 makes it take that path here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from packer.reader.order.options import OrderOptions
from packer.reader.order.schedule import Schedule

SAMPLES = 32  # of a chunk
LAYOUTS = ((18, 16), (100, 64))


@dataclass(frozen=True)
class Coverage:
    """What was read of `samples` samples, in how many epochs, by how many ranks."""

    name: str
    chunks: int
    ranks: int
    epochs: int
    never_seen: float
    read: tuple[int, int]  # samples of a rank and epoch, fewest and most


def main() -> None:
    """Measure and print side by side."""
    options = parse()
    rows = []
    for chunks, ranks in LAYOUTS:
        rows.append(ours(chunks, ranks, options.epochs, options.batch_size))
        if options.litdata_python:
            for fast in (True, False):
                rows.append(litdata(options.litdata_python, chunks, ranks, options.epochs, fast))
    print(f"{'':<30}{'chunks':>7}{'ranks':>7}{'epochs':>8}{'never seen':>12}{'samples a rank':>16}")
    for row in rows:
        spread = f"{row.read[0]} to {row.read[1]}"
        print(
            f"{row.name:<30}{row.chunks:>7}{row.ranks:>7}{row.epochs:>8}"
            f"{row.never_seen:>12.2%}{spread:>16}"
        )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8, help="of our mini-batches")
    parser.add_argument("--litdata-python", metavar="PYTHON", help="Python that has litdata")
    return parser.parse_args()


def ours(chunks: int, ranks: int, epochs: int, batch_size: int) -> Coverage:
    """From the order alone: the union of what each rank's mini-batches hold."""
    counts = np.full(chunks, SAMPLES)
    seen = np.zeros(chunks * SAMPLES, np.bool_)
    read = []
    for epoch in range(epochs):
        for rank in range(ranks):
            options = OrderOptions(batch_size, rank=rank, world_size=ranks)
            schedule = Schedule(counts, counts, options)
            order = schedule.order(epoch)
            batches = [schedule.mini_batch(order, step) for step in range(len(schedule))]
            for batch in batches:
                seen[batch] = True
            read.append(sum(map(len, batches)))
    never = 1 - float(seen.mean())
    return Coverage("packer", chunks, ranks, epochs, never, (min(read), max(read)))


def litdata(python: str, chunks: int, ranks: int, epochs: int, fast: bool) -> Coverage:
    """By LitData itself, in a process and folders of its own."""
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        environment = {
            **os.environ,
            # Where it keeps what it works on: by default it clears folders in the temp folder.
            "TMPDIR": folder,
            "DATA_OPTIMIZER_CACHE_FOLDER": str(Path(folder, "cache")),
            "DATA_OPTIMIZER_DATA_CACHE_FOLDER": str(Path(folder, "data")),
            "LITDATA_POSIX_FAST": "1" if fast else "0",
        }
        script = Path(folder, "measure.py")
        script.write_text(LITDATA)
        arguments = [str(number) for number in (chunks, SAMPLES, ranks, epochs)]
        done = subprocess.run(
            [python, str(script), *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{python}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    name = f"LitData {found['version']}, " + ("as on NFS" if fast else "local disk")
    spread = min(found["read"]), max(found["read"])
    return Coverage(name, chunks, ranks, epochs, found["never_seen"], spread)


#: Runs under LitData's Python. Ranks take turns in one process, so they are told who they are.
LITDATA = """
import json, sys
from importlib.metadata import version

import litdata
from litdata.utilities import env

CHUNKS, SAMPLES, RANKS, EPOCHS = map(int, sys.argv[1:])


def number(value):
    return {"number": value}


def read(rank, epoch):
    env._DistributedEnv.detect = classmethod(lambda cls: cls(RANKS, rank, 1))
    env._WorkerEnv.detect = classmethod(lambda cls: cls(1, 0))
    dataset = litdata.StreamingDataset("data-set", shuffle=True, drop_last=True)
    dataset.current_epoch = epoch
    return [int(sample["number"]) for sample in dataset]


if __name__ == "__main__":
    litdata.optimize(fn=number, inputs=list(range(CHUNKS * SAMPLES)), output_dir="data-set",
                     num_workers=1, chunk_size=SAMPLES)
    seen, counts = set(), []
    for epoch in range(1, EPOCHS + 1):
        for rank in range(RANKS):
            samples = read(rank, epoch)
            seen.update(samples)
            counts.append(len(samples))
    never = 1 - len(seen) / (CHUNKS * SAMPLES)
    print()
    print(json.dumps({"version": version("litdata"), "never_seen": never, "read": counts}))
"""

if __name__ == "__main__":
    main()
