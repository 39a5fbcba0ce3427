"""Images/s of reading pictures for training: by packer, by other libraries, and at the limit.

    python scripts/bench_read.py DATA [--tasks train center raw] [--workers 1 2]
        [--caches warm cold] [--cold-workers 2] [--rounds 3]
        [--peer 'NAME[:TASK,…]=COMMAND with {data} {task} {workers}' …]
        [--only NAME …] [--fast] [--json OUT] [--svg OUT] [--markdown OUT] [--quick]

DATA holds all readers' containers of the same pictures: `pack`, a pack of JPEGs with a shorter side
of 256 pixels, `pack-raw`, a pack of the same pictures as 256×256 pixels (--resize-mode crop --codec
raw), and the data of the peers' commands, made of those packs' bytes. It may be on a mounted file
system. All readers give whole epochs of mini-batches of 128, uint8, each with its own shuffling:

    train    decode, RandomResizedCrop(224), RandomHorizontalFlip
    center   decode, CenterCrop(224)
    raw      CenterCrop(224) of stored pixels

    limit    scripts/bench/read_limit.py: library calls over bytes in memory
    packer   `Loader`, and `BatchStream` in a DataLoader; with --fast also decode_quality="fast"
    peers    programs that answer as `bench.read_serve.serve` does

For each task and number of workers (threads or processes, as a reader has them), all readers are
started, read an epoch that is checked (the number of samples, the sum of their labels and the mean
of their pixels must agree), and are stopped (SIGSTOP) unless it is their turn. They take turns
in every round, in an order that rotates. A turn is --epochs epochs, or whole epochs of --seconds
together; its first mini-batch does not count. "cold" is one epoch each after all files below DATA
were dropped from the page cache. Figures, medians of all rounds:

    images/s   ratios to the fastest peer and to the faster of the limits that make mini-batches are
               taken round by round: what slows a whole round down cancels out
    CPU        milliseconds of all of a reader's processes for an image
    first      seconds until an epoch's first mini-batch

A reader that fails is left out of its case and reported at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import read_cache as cache
from bench.read_check import complaint, expected
from bench.read_process import Place, Reader, ReaderFailed
from bench.read_report import Candidate, Case, Figures, Outcome, as_json, chart, report
from bench.read_work import TASKS
from packer.errors import PackerError

#: Fraction of a container's pages above which pages that are still cached are reported. A reader
#: that reads ahead of its first mini-batch may have the next ones mapped.
STILL_CACHED = 0.05


def main() -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the readers, too
    options = parse()
    candidates = [*limits(), *packers(options), *(peer(text) for text in options.peer)]
    names = [candidate.name for candidate in candidates]
    if len(set(names)) < len(names):
        sys.exit("two readers have the same name")
    if unknown := set(options.only or ()) - set(names):
        sys.exit(f"--only {min(unknown)!r}: no reader's name; there are {', '.join(names)}")
    try:
        for task in options.tasks:
            expected(options.data, task)
    except PackerError as error:
        sys.exit(str(error))
    outcome = Outcome(options.data, candidates)
    for task in options.tasks:
        for workers in options.workers:
            measure_group(task, workers, options, outcome)
            write(options, outcome)  # the results so far, in case a later group does not end
    print(report(outcome))
    write(options, outcome)
    if outcome.failures:
        sys.exit("\n".join(["", "failed:", *outcome.failures]))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--caches", nargs="+", choices=("warm", "cold"), default=["warm", "cold"])
    parser.add_argument(
        "--cold-workers", type=int, nargs="+", help="default: the last of --workers"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME[:TASKS]=COMMAND")
    parser.add_argument("--fast", action="store_true", help="also run decode_quality='fast'")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run only these readers")
    parser.add_argument("--json", type=Path, help="write all measurements there")
    parser.add_argument("--markdown", type=Path, help="write the tables there")
    parser.add_argument("--svg", type=Path, help="write a chart there")
    parser.add_argument("--quick", action="store_true", help="one round of one epoch each")
    options = parser.parse_args()
    options.data = options.data.absolute()
    options.cold_workers = options.cold_workers or options.workers[-1:]
    if options.quick:
        options.rounds, options.epochs = 1, 1
    return options


def limits() -> list[Candidate]:
    """Return the programs that do the work alone."""
    tasks = {"decode": ("train", "center"), "pixels": ("train", "center"), "copy": ("raw",)}
    return [
        Candidate(f"limit {work}", "limit", program("read_limit", work), tasks.get(work))
        for work in ("decode", "pixels", "copy", "packer")
    ]


def packers(options: argparse.Namespace) -> list[Candidate]:
    """Return both readers, and with --fast the one that decodes faster and less exactly."""
    found = [
        Candidate("packer Loader", "packer", program("read_ours", "loader")),
        Candidate("packer BatchStream", "packer", program("read_ours", "stream")),
    ]
    if options.fast:
        command = [*program("read_ours", "loader"), "--quality", "fast"]
        found.append(Candidate("packer Loader, fast", "packer", command, ("train", "center")))
    return found


def program(name: str, argument: str) -> list[str]:
    """Return the command of a program in `bench`, which `Reader` puts on the path."""
    place = ["--data", "{data}", "--task", "{task}", "--workers", "{workers}"]
    return [sys.executable, "-m", f"bench.{name}", argument, *place]


def peer(text: str) -> Candidate:
    """Parse --peer; the command is split as by a shell, but runs without one."""
    found = re.fullmatch(r"([^:=]+)(?::([a-z,]+))?=(.*)", text, re.DOTALL)
    if found is None or not all(word in found[3] for word in ("{data}", "{task}", "{workers}")):
        sys.exit(
            f"--peer {text!r}: needs NAME=COMMAND or NAME:TASK,…=COMMAND, with {{data}}, {{task}}"
            " and {workers} in the command"
        )
    tasks = tuple(found[2].split(",")) if found[2] else None
    if unknown := set(tasks or ()) - set(TASKS):
        sys.exit(f"--peer {found[1]}: unknown task {min(unknown)!r}; one of {', '.join(TASKS)}")
    return Candidate(found[1], "peer", shlex.split(found[3]), tasks)


def measure_group(task: str, workers: int, options: argparse.Namespace, outcome: Outcome) -> None:
    """Measure all cases of a task and a number of workers: warm, then cold, in the same
    processes.
    """
    caches = [name for name in options.caches if name == "warm" or workers in options.cold_workers]
    if not caches:
        return
    chosen = [
        candidate
        for candidate in outcome.candidates
        if candidate.does(task) and (not options.only or candidate.name in options.only)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        contextlib.ExitStack() as running,
    ):
        place = Place(options.data, task, workers, Path(scratch))
        readers: list[Reader] = []
        for candidate in chosen:
            try:
                reader = started(candidate, place, outcome)
            except ReaderFailed as error:
                outcome.failures.append(f"{task}, workers: {workers}: {error}")
                continue
            running.callback(reader.end)
            readers.append(reader)
        for name in caches:
            measure_case(Case(task, workers, name), readers, options, outcome)


def started(candidate: Candidate, place: Place, outcome: Outcome) -> Reader:
    """Return a reader that has read a whole epoch and is stopped."""
    start = time.perf_counter()
    reader = Reader(candidate.name, candidate.command, place)
    opened = time.perf_counter() - start
    try:
        seen = reader.ask(ask="check")
        wrong = complaint(seen, place.data, place.task)
        if wrong:
            raise ReaderFailed(f"{candidate.name}: {wrong}: {seen}")
    except BaseException:
        reader.end()
        raise
    outcome.versions[candidate.name] = reader.versions
    key = f"{place.task}, workers: {place.workers}"
    outcome.checks.setdefault(candidate.name, {})[key] = {**seen, "opened": opened}
    say(f"{key}: {candidate.name}: {opened:.1f} s to open, {seen['first']:.1f} s to the first")
    return reader


def measure_case(
    case: Case, readers: list[Reader], options: argparse.Namespace, outcome: Outcome
) -> None:
    """Measure all rounds. The rounds of a reader that fails are removed."""
    rounds: dict[str, list[Figures]] = {reader.name: [] for reader in readers}
    outcome.results[case] = rounds

    @contextlib.contextmanager
    def told(reader: Reader) -> Iterator[None]:
        try:
            yield
        except ReaderFailed as error:
            outcome.failures.append(f"{case}: {error}")
            del rounds[reader.name]

    if case.cache == "cold":
        for reader in readers:
            with told(reader):
                reader.ask(ask="forget")
    for number in range(options.rounds):
        first = number % max(len(readers), 1)
        for reader in readers[first:] + readers[:first]:
            if reader.name in rounds:
                with told(reader):
                    figures = turn(case, reader, options)
                    rounds[reader.name].append(figures)
                    text = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
                    say(f"{case}: round {number}, {reader.name}: {text}")


def turn(case: Case, reader: Reader, options: argparse.Namespace) -> Figures:
    """Measure one round of one reader."""
    epochs = options.epochs
    if case.cache == "cold":
        epochs = 1
        cache.drop(options.data)
        for name, part in cache.cached(options.data).items():
            if part > STILL_CACHED:
                say(f"{case}: {reader.name}: {part:.0%} of {name} is still cached")
    found = reader.ask(ask="pass", epochs=epochs, seconds=options.seconds)
    if case.cache == "cold":
        reader.ask(ask="forget")  # mapped files could not be dropped before another reader's turn
    return {
        "speed": found["images"] / found["seconds"],
        "cpu_ms": 1000 * found["cpu"] / found["seen"],
        "first": found["first"],
    }


def write(options: argparse.Namespace, outcome: Outcome) -> None:
    """Write the requested files from the results so far."""
    if options.json:
        written = as_json(outcome)
        for name in ("rounds", "epochs", "seconds"):
            written[name] = getattr(options, name)
        options.json.write_text(json.dumps(written, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(report(outcome) + "\n")
    if options.svg:
        options.svg.write_text(chart(outcome))


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
