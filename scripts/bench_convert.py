"""Images/s of converting a folder: by packer, by other programs, and by the image libraries alone.

    python scripts/bench_convert.py FOLDER [--rounds 3] [--jobs 2] [--formats tar lmdb hdf5]
        [--peer 'NAME=COMMAND with {src} {out} {workers}' …] [--json OUT]

FOLDER has class folders with JPEGs. Every candidate makes of each the shorter side of --resize
pixels, never enlarged, as a JPEG of --quality, 4:2:0: packer by --reencode, as the others encode
pictures that need no change too, and a peer by what its command says.

    limit    scripts/bench_limit.py: library calls over bytes in memory, a process a core
    packer   `python -m packer convert`, once for each format
    peers    commands; one may print {"n": images, "inner_s": seconds} as its last line

The candidates take turns in every round, in an order that rotates; all files are read once
beforehand, so that the page cache is warm if they fit into memory. Figures:

    whole process       images ÷ wall seconds of the process
    fixed               seconds that a run takes over no more than one picture for each process:
                        starting, importing, ending
    without start-up    images ÷ seconds, without those pictures and the fixed seconds, where these
                        are less than half; the limit's seconds have no start-up in them
    first picture       seconds from packer's start until it has reported those pictures
    busy                CPU seconds ÷ (wall seconds × jobs), without start-up
    peak                memory of the largest process
    own                 images/s by a peer's last line, and its own idea of what counts

Ratios are taken round by round: what slows a whole round down cancels out. Each run has a TMPDIR
of its own, as there are programs that empty folders in it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import packer
from bench.figures import cell, machine, read_once
from packer.imaging import libraries

EXTENSIONS = (".jpg", ".jpeg")
#: Titles of the tables' columns, the figures in them, and digits after the point.
SPEEDS = (
    ("whole process", "whole", 0),
    ("/ fastest peer", "whole_to_peer", 2),
    ("without start-up", "steady", 0),
    ("/ limit", "steady_to_limit", 2),
    ("/ fastest peer", "steady_to_peer", 2),
)
MORE = (
    ("first picture, s", "first_seconds", 2),
    ("fixed, s", "fixed_seconds", 2),
    ("busy", "busy", 2),
    ("peak, MB", "peak_mb", 0),
    ("output, MB", "output_mb", 1),
    ("own", "own", 0),
)

#: One round's figures of a candidate by name: images/s where the name says nothing else. What a
#: candidate has not is not there.
Figures: TypeAlias = dict[str, float]
#: Of each candidate's name, one a round.
Results: TypeAlias = dict[str, list[Figures]]


@dataclass(frozen=True)
class Candidate:
    """A way to convert: its command, with {src}, {out} and {workers} to be filled in."""

    name: str
    kind: str  # limit, packer, peer
    command: list[str]


@dataclass(frozen=True)
class Run:
    """One process. `said`: the JSON object in its last line; `first`: see `seconds_to_first`."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output_mb: float
    said: dict[str, Any]
    first: float | None


@dataclass(frozen=True)
class Sources:
    """The folder, and one with a picture of it for each process; numbers of images."""

    whole: Path
    small: Path
    images: int
    small_images: int


@dataclass(frozen=True)
class Bench:
    """What all runs share."""

    sources: Sources
    jobs: int
    scratch: Path


def main() -> None:
    """Measure and print."""
    options = parse()
    candidates = [limit(options), *packers(options), *map(peer, options.peer)]
    results: Results = {candidate.name: [] for candidate in candidates}
    if len(results) < len(candidates):
        sys.exit("two candidates have the same name")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.scratch) as name:
        bench = Bench(prepare(options, Path(name)), options.jobs, Path(name))
        for candidate in candidates:  # fails early, and fills caches of compiled code
            run(candidate, bench.sources.small, bench)
        for number in range(options.rounds):
            first = number % len(candidates)
            for candidate in candidates[first:] + candidates[:first]:
                figures = measure(candidate, bench)
                results[candidate.name].append(figures)
                text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                print(f"round {number}, {candidate.name}: {text}", file=sys.stderr)
    fastest = add_ratios(candidates, results)
    print(report(results, fastest, bench))
    if options.json:
        value = as_json(candidates, results, fastest, bench)
        value["options"] = {"resize": options.resize, "quality": options.quality}
        options.json.write_text(json.dumps(value, indent=1) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="processes of every candidate")
    parser.add_argument("--formats", nargs="*", default=["tar", "lmdb", "hdf5"])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--resize", type=int, default=256)
    parser.add_argument("--quality", type=int, default=90)
    parser.add_argument("--scratch", type=Path, help="where outputs lie for a while")
    parser.add_argument("--json", type=Path, help="write all measurements there")
    return parser.parse_args()


def limit(options: argparse.Namespace) -> Candidate:
    """The image libraries alone."""
    script = str(Path(__file__).absolute().with_name("bench_limit.py"))
    command = [sys.executable, script, "{src}", "--jobs", "{workers}"]
    command += ["--resize", str(options.resize), "--quality", str(options.quality)]
    return Candidate("limit", "limit", command)


def packers(options: argparse.Namespace) -> Iterable[Candidate]:
    """One for each format."""
    for name in options.formats:
        command = [sys.executable, "-m", "packer", "convert", "{src}", "--out", "{out}"]
        command += ["--jobs", "{workers}", "--format", name, "--resize", str(options.resize)]
        command += ["--no-upscale", "--reencode", "--quality", str(options.quality)]
        command += ["--progress", "json", "--json"]
        yield Candidate(f"packer {name}", "packer", command)


def peer(text: str) -> Candidate:
    """What --peer says; the command is split as a shell would, but none runs it."""
    name, equals, command = text.partition("=")
    if not (name and equals and "{src}" in command and "{out}" in command):
        sys.exit(f"--peer {text!r}: needs NAME=COMMAND, with {{src}} and {{out}} in the command")
    return Candidate(name, "peer", shlex.split(command))


def prepare(options: argparse.Namespace, scratch: Path) -> Sources:
    """Copy a picture for each process, and read everything once."""
    folder, small = options.folder.absolute(), scratch / "small"
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS)
    if len(files) <= options.jobs:
        sys.exit(f"{folder}: has {len(files)} JPEG files; more than --jobs are needed")
    for number in range(options.jobs):
        path = files[number * len(files) // options.jobs]
        copy = small / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    read_once(folder)
    return Sources(folder, small, len(files), options.jobs)


def measure(candidate: Candidate, bench: Bench) -> Figures:
    """One round of one candidate."""
    sources = bench.sources
    whole = run(candidate, sources.whole, bench)
    said = whole.said
    made = said.get("n", said.get("counts", {}).get("packed", sources.images))
    if made != sources.images:
        print(f"{candidate.name} made {made} of {sources.images} images", file=sys.stderr)
    own = {"own": made / said["inner_s"]} if "inner_s" in said else {}
    if candidate.kind == "limit":
        busy = said["cpu_s"] / (said["inner_s"] * bench.jobs)
        return {"steady": own["own"], "busy": busy, "peak_mb": whole.peak_mb}
    small = run(candidate, sources.small, bench)
    figures = {"whole": sources.images / whole.seconds, **own}
    figures.update(peak_mb=whole.peak_mb, output_mb=whole.output_mb, fixed_seconds=small.seconds)
    seconds, images = whole.seconds - small.seconds, sources.images - sources.small_images
    if seconds > small.seconds:  # else the folder is too small for the difference to say much
        figures["steady"] = images / seconds
        figures["busy"] = (whole.cpu_seconds - small.cpu_seconds) / (seconds * bench.jobs)
    if small.first is not None:
        figures["first_seconds"] = small.first
    return figures


def run(candidate: Candidate, source: Path, bench: Bench) -> Run:
    """One process, in a folder of its own that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(dir=bench.scratch))
    (folder / "tmp").mkdir()
    values = {"{src}": str(source), "{out}": str(folder / "out"), "{workers}": str(bench.jobs)}
    command = [
        re.sub("{src}|{out}|{workers}", lambda found: values[found[0]], word)
        for word in candidate.command
    ]
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("PACKER_")
    }
    environment["TMPDIR"] = str(folder / "tmp")
    with (folder / "stdout").open("w") as stdout, (folder / "stderr").open("w") as stderr:
        begin, start = time.time(), time.perf_counter()
        process = subprocess.Popen(
            command, stdout=stdout, stderr=stderr, cwd=folder, env=environment
        )
        # Unlike Popen.wait, it tells what the process and those that it waited for have used.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = (folder / "stderr").read_text(errors="replace").splitlines()
    if process.returncode:
        shown = "\n".join([shlex.join(command), *lines[-20:]])
        sys.exit(f"{candidate.name}: failed with exit code {process.returncode}: {shown}")
    result = Run(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss * 1024 / 1e6,  # Linux counts KiB
        output_mb=stored_bytes(folder / "out") / 1e6,
        said=last_object((folder / "stdout").read_text(errors="replace")),
        first=seconds_to_first(lines, begin),
    )
    shutil.rmtree(folder)
    os.sync()  # so that nothing is written back while the next one runs
    return result


def stored_bytes(folder: Path) -> int:
    """Bytes of all files; those that are there, of a sparse one."""
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(min(stat.st_size, stat.st_blocks * 512) for stat in stats)


def last_object(text: str) -> dict[str, Any]:
    """The JSON object in the last line, if there is one."""
    try:
        found = json.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def seconds_to_first(lines: Iterable[str], begin: float) -> float | None:
    """From `begin` to the first event of progress among packer's lines of stderr."""
    for line in lines:
        event = last_object(line)
        if event.get("event") == "progress":
            return float(event["time"]) - begin
    return None


def add_ratios(candidates: list[Candidate], results: Results) -> dict[str, str]:
    """Add ratios to the figures, round by round; returns the fastest peer's name by figure."""
    fastest = {}
    peers = [candidate.name for candidate in candidates if candidate.kind == "peer"]
    for figure in ("whole", "steady"):
        medians = {
            name: statistics.median(values)
            for name in peers
            if (values := column(results[name], figure))
        }
        if medians:
            fastest[figure] = max(medians, key=lambda name: medians[name])
    pairs = [(figure, f"{figure}_to_peer", name) for figure, name in fastest.items()]
    for figure, ratio, other in [*pairs, ("steady", "steady_to_limit", "limit")]:
        for rounds in results.values():
            for mine, theirs in zip(rounds, results[other], strict=True):
                if figure in mine and figure in theirs:
                    mine[ratio] = mine[figure] / theirs[figure]
    return fastest


def column(rounds: list[Figures], figure: str) -> list[float]:
    """One figure of all rounds that have it."""
    return [figures[figure] for figures in rounds if figure in figures]


def report(results: Results, fastest: dict[str, str], bench: Bench) -> str:
    """Both tables."""
    lines = [
        f"images/s of {bench.sources.images} images, processes: {bench.jobs}, median of"
        f" {len(results['limit'])} rounds (lowest to highest)"
    ]
    if fastest:
        without = fastest.get("steady", "unknown")
        lines.append(f"fastest peer: {fastest['whole']}; without start-up: {without}")
    return "\n".join([*lines, "", *table(results, SPEEDS), "", *table(results, MORE)])


def table(results: Results, columns: tuple[tuple[str, str, int], ...]) -> Iterable[str]:
    """A line of titles, then one a candidate."""
    yield row("", [title for title, _, _ in columns])
    for name, rounds in results.items():
        yield row(name, [cell(column(rounds, figure), digits) for _, figure, digits in columns])


def row(name: str, cells: list[str]) -> str:
    """One line."""
    return (f"{name:<18}" + "".join(f"{text:<24}" for text in cells)).rstrip()


def as_json(
    candidates: list[Candidate],
    results: Results,
    fastest: dict[str, str],
    bench: Bench,
) -> dict[str, Any]:
    """Everything that was measured, as JSON values."""
    return {
        "schema": "packer-bench-convert-1",
        "machine": machine(),
        "packer": packer.__version__,
        "python": sys.version.split()[0],
        "libraries": libraries.report(),
        "images": bench.sources.images,
        "small_images": bench.sources.small_images,
        "jobs": bench.jobs,
        "fastest_peer": fastest,
        "candidates": [
            {
                "name": candidate.name,
                "command": candidate.command,
                "rounds": results[candidate.name],
            }
            for candidate in candidates
        ],
    }


if __name__ == "__main__":
    main()
