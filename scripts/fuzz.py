"""Fuzz the files that packer reads, with damaged and malicious ones.

    scripts/fuzz.py --seconds 3600 --seed 7 --corpus found
    scripts/fuzz.py --seconds 60 --only png --only sealed-index

Each case must succeed or end as an error of one line with exit code 1 to 4; a traceback, a signal,
more than 30 s or 2 GiB are findings. The files of the corpus run first. New findings are written
there, and the exit code is 1. Cases depend on the seed and their number alone.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fuzzing import pictures, text
from fuzzing.change import change_bytes
from fuzzing.child import Case, Outcomes, run_cases
from fuzzing.packs import WORK, Packs, change_json, run_lock, seed_lock

#: Cases of each kind that run even on a slow machine.
_AT_LEAST = 5
#: Cases of one kind per child: a child starts in some milliseconds.
_IN_A_ROW = 100
#: Longest time for one kind in seconds, so that none waits long for its turn.
_MOST_SECONDS = 10.0
Change = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes:
        seeds: Inputs to start from.
        change: Makes a case of one of them.
        run: Runs a case.
    """

    seeds: list[bytes]
    change: Change
    run: Case

    def cases(self, name: str, seed: int) -> Iterator[bytes]:
        """Yield cases without end."""
        for number in itertools.count():
            rng = random.Random(f"{seed} {name} {number}")
            yield self.change(rng, rng.choice(self.seeds))


def make_kinds(folder: Path) -> dict[str, Kind]:
    """Return all kinds by name; their packs are made in `folder`."""
    packs = Packs(folder)
    manifest, index = packs.seed_manifest(), packs.seed_index()
    kinds = {
        "manifest": Kind(manifest, change_bytes, packs.run_manifest),
        "sealed-manifest": Kind(manifest, packs.change_manifest, packs.run_sealed_manifest),
        "index": Kind(index, change_bytes, packs.run_index),
        "sealed-index": Kind(index, packs.change_index, packs.run_sealed_index),
        "lock": Kind(seed_lock(), change_json, run_lock),
        "recipe": Kind(text.seed_recipe(), text.change_text, text.run_recipe),
        "config": Kind(text.seed_config(), text.change_text, text.run_config),
        "list": Kind(pictures.seed_list(), pictures.change_list, pictures.run_list),
    }
    for name in WORK:
        kinds[name] = Kind(packs.seed_work(name), change_json, partial(packs.run_work, name))
    for name in ("tar", "zip"):
        seeds = pictures.seed_archive(name)
        kinds[name] = Kind(seeds, pictures.change_archive, pictures.run_archive)
    for name in pictures.PICTURES:
        seeds = pictures.seed_picture(name)
        kinds[name] = Kind(seeds, pictures.change_picture, pictures.run_picture)
    return kinds


def run_corpus(kinds: dict[str, Kind], corpus: Path, found: dict[str, Outcomes]) -> int:
    """Run the files of the corpus; return their number."""
    total = 0
    for name, kind in kinds.items():
        files = [path.read_bytes() for path in sorted((corpus / name).glob("*"))]
        run_cases(kind.run, iter(files), found[name])
        total += len(files)
    return total


def keep(name: str, outcomes: Outcomes, corpus: Path) -> None:
    """Write inputs that led to findings into the corpus."""
    for data in outcomes.findings.values():
        path = corpus / name / hashlib.sha256(data).hexdigest()[:16]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main() -> int:
    """Run for a while and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600, help="how long [3600]")
    parser.add_argument("--seed", type=int, default=0, help="seed of the cases [0]")
    parser.add_argument("--corpus", type=Path, help="run its files first, write findings there")
    parser.add_argument("--no-keep", action="store_true", help="write no findings there")
    parser.add_argument("--only", action="append", help="run only this kind; repeatable")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        kinds = make_kinds(Path(folder))
        if unknown := set(given.only or ()) - kinds.keys():
            parser.error(f"no kind {', '.join(unknown)}; known: {', '.join(kinds)}")
        kinds = {name: kinds[name] for name in given.only or kinds}
        found = {name: Outcomes() for name in kinds}
        old = run_corpus(kinds, given.corpus, found) if given.corpus else 0
        cases = {name: kind.cases(name, given.seed) for name, kind in kinds.items()}
        for name, kind in kinds.items():
            run_cases(kind.run, itertools.islice(cases[name], _AT_LEAST), found[name])
        end = time.monotonic() + given.seconds
        for name in itertools.cycle(kinds):
            if time.monotonic() >= end:
                break
            # The same time for each kind, however long a case takes.
            until = min(end, time.monotonic() + min(_MOST_SECONDS, given.seconds / len(kinds)))
            while time.monotonic() < until:
                some = itertools.islice(cases[name], _IN_A_ROW)
                run_cases(kinds[name].run, some, found[name], until)
            if given.corpus and not given.no_keep:
                keep(name, found[name], given.corpus)
    report(found, old, as_json=given.json)
    return 1 if any(outcomes.findings for outcomes in found.values()) else 0


def report(found: dict[str, Outcomes], old: int, *, as_json: bool) -> None:
    """Print the findings."""
    if as_json:
        kinds = {name: dict(outcomes.counts) for name, outcomes in found.items()}
        findings = {name: list(outcomes.findings) for name, outcomes in found.items()}
        print(json.dumps({"corpus": old, "kinds": kinds, "findings": findings}))
        return
    for name, outcomes in found.items():
        counts = ", ".join(f"{what} {n:,}" for what, n in outcomes.counts.most_common())
        print(f"{name:<16} {outcomes.counts.total():>9,}  {counts}")
        for line, data in outcomes.findings.items():
            print(f"  {line}  {hashlib.sha256(data).hexdigest()[:16]}")
    total = sum(outcomes.counts.total() for outcomes in found.values())
    print(f"{total:,} cases, {old} of the corpus")


if __name__ == "__main__":
    sys.exit(main())
