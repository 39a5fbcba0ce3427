"""Measure RPCs, bytes and seconds of one epoch over NFS: image folder, one big file, packs.

    python scripts/bench_nfs.py prepare FOLDER DATA [--images 1280] [--resize 256]
    python scripts/bench_nfs.py measure DATA --label "v4.2, 1 ms" --json OUT [--rounds 1]
        [--stats COMMAND] [--cold COMMAND] [--cases tar ...]
    python scripts/bench_nfs.py table OUT...

`prepare` makes the data, to be copied to the server: pictures of FOLDER as a tar, an LMDB and an
HDF5 pack, and the packs' pictures as files and as one file. `measure` reads each of them once,
with empty caches, from a mount of the server. RPCs are the NFS client's own counts
(/proc/self/mountstats, Linux); another client prints its counts with --stats. Without --cold (a
command, best one that mounts anew) only the files' pages are dropped. Pictures are read, not
decoded. The folder is listed before its counting starts; counts of packs include their opening.
`table` prints the measurements as Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.figures import machine
from bench.nfs_cases import FOLDER, ONE_FILE, Case, all_cases, list_pictures, prepare, read_epoch
from bench.nfs_mount import Mount


@dataclass(frozen=True)
class Row:
    """One epoch, measured.

    Attributes:
        case: Name of the case.
        images: Number of pictures read.
        size: Bytes of the pictures.
        seconds: Time from opening to the last byte, one value per round.
        rpcs: Number of calls in the last round; None if they are not counted.
        ops: The same by kind.
        fetched: Bytes of files fetched from the server, of the last round.
    """

    case: str
    images: int
    size: int
    seconds: list[float]
    rpcs: int | None
    ops: dict[str, int]
    fetched: int | None


def measure(mount: Mount, cases: Sequence[Case], rounds: int) -> Iterator[Row]:
    """Measure each case in its own process, with empty caches."""
    for case in cases:
        seconds = []
        for _ in range(rounds):
            mount.make_cold()
            found = _in_process(mount, case)
            seconds.append(found["seconds"])
        row = Row(case.name, **{**found, "seconds": seconds})
        print(f"{row.case:14} {row.rpcs} RPCs  {seconds[-1]:.2f} s", file=sys.stderr)
        yield row


def _in_process(mount: Mount, case: Case) -> dict[str, Any]:
    """Measure in a fresh process: nothing stays open on the mount, nothing is left in memory."""
    # Forked, as importing torch takes longer than an epoch.
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_measure_one, args=(mount, case, sending))
    process.start()
    sending.close()
    try:
        found: dict[str, Any] = receiving.recv()
    except EOFError:
        sys.exit(f"{case.name} failed")
    process.join()
    return found


def _measure_one(mount: Mount, case: Case, sending: Connection) -> None:
    pictures = list_pictures(mount.folder) if case.source == FOLDER else []
    before = mount.counts()
    epoch = read_epoch(mount.folder, case, pictures)
    after = mount.counts()
    found = {**asdict(epoch), "rpcs": None, "ops": {}, "fetched": None}
    if before is not None and after is not None:
        counts = after.since(before)
        ops = dict(counts.ops.most_common())
        found.update(rpcs=counts.rpcs, ops=ops, fetched=counts.read)
    sending.send(found)


def table(measured: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, one column per measurement: RPCs and median seconds."""
    names = list(dict.fromkeys(row["case"] for value in measured for row in value["rows"]))
    yield "| one epoch | " + " | ".join(value["label"] for value in measured) + " |"
    yield "|---" * (len(measured) + 1) + "|"
    for name in names:
        cells = [_cell(value["rows"], name) for value in measured]
        yield f"| {name} | " + " | ".join(cells) + " |"


def _cell(rows: Sequence[dict[str, Any]], name: str) -> str:
    """Return RPCs, seconds, and their ratios to those of the folder and of the one file."""
    by_case = {row["case"]: row for row in rows}
    row = by_case.get(name)
    if row is None:
        return "–"
    parts = []
    folder, one = by_case.get(f"{FOLDER} 1"), by_case.get(ONE_FILE)
    if row["rpcs"] is not None:
        fewer = f" ({folder['rpcs'] / row['rpcs']:.0f} ×)" if folder and row["rpcs"] else ""
        parts.append(f"{row['rpcs']:,}{fewer}")
    seconds = statistics.median(row["seconds"])
    ratio = f" ({seconds / statistics.median(one['seconds']):.2f})" if one else ""
    parts.append(f"{seconds:.2f} s{ratio}")
    return ", ".join(parts)


def main() -> None:
    """Run the command line."""
    options = parse()
    if options.verb == "prepare":
        prepare(options.source, options.data, options.images, options.resize, options.batch_size)
    elif options.verb == "measure":
        import packer.reader.stream  # noqa: F401 - before the processes that share it are forked

        mount = Mount(options.data, options.stats, options.cold)
        cases = [case for case in all_cases() if not options.cases or case.source in options.cases]
        rows = [asdict(row) for row in measure(mount, cases, options.rounds)]
        value = {"label": options.label, "rows": rows, "machine": machine()}
        options.json.write_text(json.dumps(value, indent=1))
        print("\n".join(table([value])))
    else:
        print("\n".join(table([json.loads(path.read_text()) for path in options.measured])))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("prepare")
    making.add_argument("source", type=Path)
    making.add_argument("data", type=Path)
    making.add_argument("--images", type=int, default=1280)
    making.add_argument("--resize", type=int, default=256)
    making.add_argument("--batch-size", type=int, default=128)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("data", type=Path, help="what `prepare` made, on the mount")
    measuring.add_argument("--label", default="", help="name of the mount, for the table")
    measuring.add_argument("--json", type=Path, required=True, help="write all figures there")
    measuring.add_argument("--rounds", type=int, default=1)
    measuring.add_argument("--stats", help="command that prints the client's counts as JSON")
    measuring.add_argument("--cold", help="command that empties the client's caches")
    measuring.add_argument("--cases", nargs="+", help="only these: folder, one-file, tar, …")
    printing = verbs.add_parser("table")
    printing.add_argument("measured", type=Path, nargs="+")
    return parser.parse_args()


if __name__ == "__main__":
    main()
