"""What the storage sees of one epoch: bytes read, as a part of the pack's batches.

    python scripts/bench_io.py PACK [--split train] [--json OUT]

Before each measurement the shards are dropped from the page cache; after it the bytes that the
epoch's processes have had fetched from the storage are added up (`read_bytes` of /proc/PID/io, so
what is found in the page cache is free). Two tables:

    workers  one rank, 0, 1, 2, 3 and 5 DataLoader workers, each way of shuffling, mini-batches of
             100, 128 and 512
    ranks    nodes of their own: each rank alone on a machine that has nothing cached, its bytes as
             a part of its share of the batches (lowest to highest rank, all ranks together)

Pictures are not decoded. Linux only, and a file system on a disk: tmpfs and NFS are not counted by
/proc/PID/io.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WORKERS = (0, 1, 2, 3, 5)
SIZES = (100, 128, 512)
SHUFFLES = ("none", "batch", "window", "full")
WORLDS = (1, 2, 3, 4, 8)


@dataclass(frozen=True)
class Case:
    """One epoch to read, by one rank."""

    shuffle: Any
    batch_size: int
    workers: int = 0
    rank: int = 0
    world_size: int = 1


@dataclass(frozen=True)
class Read:
    """What it took.

    Attributes:
        stored: Bytes fetched from the storage, by all its processes.
        asked: Bytes asked for, cached or not.
        share: Bytes of the rank's share of the on-disk batches.
        seconds: Processor time of all its processes.
    """

    stored: int
    asked: int
    share: float
    seconds: float

    @property
    def ratio(self) -> float:
        """What the storage sees, as a part of the share."""
        return self.stored / self.share


def main() -> None:
    """Measure and print, or be the rank that is measured."""
    options = parse()
    if options.case:
        print(json.dumps(asdict(read_epoch(options, Case(**json.loads(options.case))))))
        return
    results = [*workers_table(options), *ranks_table(options)]
    if options.json:
        rows = [{**asdict(case), **asdict(read)} for case, read in results]
        options.json.write_text(json.dumps(rows, indent=1))


def workers_table(options: argparse.Namespace) -> Iterator[tuple[Case, Read]]:
    """Print a line a way of shuffling and size of mini-batch, a column a number of workers."""
    print("Storage reads / batches, one rank (asked for / batches), by workers")
    print(f"{'':12}" + "".join(f"{workers:>16}" for workers in WORKERS))
    for shuffle in options.shuffles:
        for size in SIZES:
            line = f"{shuffle:8}{size:4}"
            for workers in WORKERS:
                case = Case(shuffle, size, workers)
                read = measure(options, case)
                line += f"{read.ratio:8.2f} ({read.asked / read.share:5.2f})"
                yield case, read
            print(line, flush=True)


def ranks_table(options: argparse.Namespace) -> Iterator[tuple[Case, Read]]:
    """Print a line a way of shuffling, a column a number of ranks."""
    print("\nStorage reads / share, ranks on nodes of their own: lowest to highest, all")
    print(f"{'':12}" + "".join(f"{world:>20}" for world in WORLDS))
    for shuffle in options.shuffles:
        for size in SIZES:
            line = f"{shuffle:8}{size:4}"
            for world in WORLDS:
                cases = [Case(shuffle, size, 0, rank, world) for rank in range(world)]
                reads = [measure(options, case) for case in cases]
                ratios = [read.ratio for read in reads]
                mean = sum(ratios) / world
                line += f"{min(ratios):7.2f} to {max(ratios):4.2f} {mean:5.2f}"
                yield from zip(cases, reads, strict=True)
            print(line, flush=True)


def measure(options: argparse.Namespace, case: Case) -> Read:
    """One rank's epoch in a process of its own, with nothing in the page cache."""
    drop(options.pack)
    command = [sys.executable, __file__, options.pack, "--split", options.split]
    done = subprocess.run(
        [*command, "--case", json.dumps(asdict(case))],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Read(**json.loads(done.stdout))


def drop(pack: Path) -> None:
    """Drop a pack's shards from the page cache; the index stays."""
    for path in pack.iterdir():
        if path.suffix not in (".json", ".jsonl", ".index") and path.is_file():
            number = os.open(path, os.O_RDONLY)
            os.fsync(number)
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(number)


def read_epoch(options: argparse.Namespace, case: Case) -> Read:
    """Read it, here and in workers of this process."""
    import warnings

    from torch.utils.data import DataLoader

    from packer.reader import BatchStream, PackedDataset

    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
    # Sizes alone go from workers to here: what passes through a pipe counts as asked for, too.
    dataset = PackedDataset(options.pack, options.split, decode="bytes", transform=len)
    stream = BatchStream(
        dataset,
        case.batch_size,
        shuffle=case.shuffle,
        tail="keep",
        rank=case.rank,
        world_size=case.world_size,
    )
    share = int(dataset.pack.index["batch_bytes"].sum()) / case.world_size
    # They stay, so that they can be asked afterwards.
    more: dict[str, Any] = {"persistent_workers": True} if case.workers else {}
    mapped = count_mapped()
    loader: DataLoader[Any] = DataLoader(stream, batch_size=None, num_workers=case.workers, **more)
    before = counters([os.getpid()])
    for _ in loader:
        pass
    after = counters([os.getpid(), *children()])
    stored, asked, seconds = (late - early for early, late in zip(before, after, strict=True))
    return Read(int(stored), int(asked) + sum(mapped), share, seconds)


def count_mapped() -> list[int]:
    """From now on collects the bytes that this process takes out of mapped files, which the kernel
    does not count as asked for. (Workers map nothing.)
    """
    from packer.pack.mapping import Mapping

    taken: list[int] = []
    take = Mapping.range

    def counted(self: Mapping, offset: int, size: int) -> memoryview | None:
        found = take(self, offset, size)
        taken.append(0 if found is None else size)
        return found

    Mapping.range = counted  # type: ignore[method-assign]
    return taken


def counters(processes: list[int]) -> tuple[float, float, float]:
    """Bytes from the storage, bytes asked for, and processor seconds of some processes so far."""
    stored = asked = ticks = 0
    for process in processes:
        place = Path("/proc") / str(process)
        values = dict(line.split(": ") for line in (place / "io").read_text().splitlines())
        stored += int(values["read_bytes"])
        asked += int(values["rchar"])
        # After the name, which may hold spaces: utime and stime, fields 14 and 15 of proc(5).
        ticks += sum(int(n) for n in (place / "stat").read_text().rsplit(")")[-1].split()[11:13])
    return stored, asked, ticks / os.sysconf("SC_CLK_TCK")


def children() -> list[int]:
    """Processes that this one has started."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(process) for process in found.split()]


def parse() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--shuffles", nargs="+", choices=SHUFFLES, default=list(SHUFFLES[:3]))
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
