"""Report the results of `bench_read.py`: ratios, Markdown tables, the chart, JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import packer
from bench.chart import Bar, Panel, svg
from bench.figures import cell, machine
from bench.read_work import BATCH

WORDS = {
    "train": "decode + RandomResizedCrop(224) + flip",
    "center": "decode + CenterCrop(224)",
    "raw": "stored pixels, CenterCrop(224)",
}
#: Limits that make mini-batches: ratios are taken to the faster one.
LIMITS = ("limit pixels", "limit copy", "limit packer")

#: One round of a reader: "speed" in images/s and others.
Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Candidate:
    """A reader, and its command with {data}, {task} and {workers} to be filled in."""

    name: str
    kind: str  # limit, packer, peer
    command: list[str]
    tasks: tuple[str, ...] | None = None

    def does(self, task: str) -> bool:
        """Return whether it can do this task."""
        return self.tasks is None or task in self.tasks


@dataclass(frozen=True)
class Case:
    """A case in which readers are compared."""

    task: str
    workers: int
    cache: str

    def __str__(self) -> str:
        return f"{self.task}, {self.place}"

    @property
    def place(self) -> str:
        """Return the case's name without the task."""
        return f"workers: {self.workers}, {self.cache}"


@dataclass
class Outcome:
    """All results.

    Attributes:
        data: The folder that was read.
        candidates: All readers.
        results: Rounds by case and reader.
        checks: Result of a reader's check, by reader, task and workers.
        versions: Versions of the libraries, by reader.
        failures: A line for each reader that failed.
    """

    data: Path
    candidates: list[Candidate]
    results: dict[Case, dict[str, list[Figures]]] = field(default_factory=dict)
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def speeds(self, case: Case, name: str) -> list[float]:
        """Return images/s of all rounds; none, if the reader did not run or failed."""
        rounds = self.results.get(case, {}).get(name, [])
        return [figures["speed"] for figures in rounds]

    def fastest(self, case: Case, names: list[str]) -> str | None:
        """Return the reader with the highest median, of some."""
        medians = {
            name: statistics.median(speeds) for name in names if (speeds := self.speeds(case, name))
        }
        return max(medians, key=lambda name: medians[name]) if medians else None

    def fastest_peer(self, case: Case) -> str | None:
        """Return the fastest peer's name."""
        return self.fastest(case, [found.name for found in self.candidates if found.kind == "peer"])

    def limit(self, case: Case) -> str | None:
        """Return the name of the limit that ratios refer to."""
        return self.fastest(case, list(LIMITS))

    def ratios(self, case: Case, name: str, other: str | None) -> list[float]:
        """Return the ratios, round by round."""
        mine, theirs = self.speeds(case, name), self.speeds(case, other) if other else []
        if not (mine and theirs):
            return []
        return [one / another for one, another in zip(mine, theirs, strict=True)]


def report(outcome: Outcome) -> str:
    """Return a Markdown table for each task."""
    parts = []
    for task in dict.fromkeys(case.task for case in outcome.results):
        cases = [case for case in outcome.results if case.task == task]
        most = max((len(rounds) for rounds in outcome.results[cases[0]].values()), default=0)
        count = max((seen["images"] for seen in _seen(outcome, task)), default=0)
        lines = [
            f"{WORDS[task]}: images/s of {count} pictures, mini-batches of {BATCH}, median of"
            f" {most} rounds (lowest to highest)",
            "",
            _row("", [case.place for case in cases]),
            _row("---", ["---"] * len(cases)),
        ]
        for candidate in outcome.candidates:
            columns = [outcome.speeds(case, candidate.name) for case in cases]
            if any(columns):
                lines.append(_row(candidate.name, [cell(speeds, 0) for speeds in columns]))
        lines += _ratio_rows(outcome, cases)
        lines += _more_rows(outcome, cases)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _seen(outcome: Outcome, task: str) -> Iterator[dict[str, Any]]:
    for checks in outcome.checks.values():
        yield from (seen for key, seen in checks.items() if key.startswith(f"{task},"))


def _ratio_rows(outcome: Outcome, cases: list[Case]) -> Iterator[str]:
    """Return the fastest peer, and packer's ratios to it and to the limit."""
    yield _row("fastest peer", [outcome.fastest_peer(case) or "–" for case in cases])
    yield _row("limit", [outcome.limit(case) or "–" for case in cases])
    for candidate in outcome.candidates:
        if candidate.kind == "packer":
            to_peer, to_limit = (
                [cell(outcome.ratios(case, candidate.name, other(case)), 2) for case in cases]
                for other in (outcome.fastest_peer, outcome.limit)
            )
            if any(outcome.speeds(case, candidate.name) for case in cases):
                yield _row(f"{candidate.name} / fastest peer", to_peer)
                yield _row(f"{candidate.name} / limit", to_limit)


def _more_rows(outcome: Outcome, cases: list[Case]) -> Iterator[str]:
    """Return a second table: CPU time, and the wait for an epoch's first mini-batch."""
    yield ""
    yield _row("CPU ms an image; s to the first", [case.place for case in cases])
    yield _row("---", ["---"] * len(cases))
    for candidate in outcome.candidates:
        rounds = [outcome.results[case].get(candidate.name, []) for case in cases]
        if any(rounds):
            cells = [
                "; ".join(
                    cell([figures[name] for figures in found], 2) for name in ("cpu_ms", "first")
                )
                for found in rounds
            ]
            yield _row(candidate.name, cells)


def _row(name: str, cells: list[str]) -> str:
    return f"| {' | '.join([name, *cells])} |"


def chart(outcome: Outcome) -> str:
    """Return a panel for each case with the most workers, the fastest reader first."""
    panels = []
    most = max((case.workers for case in outcome.results), default=0)
    for case in (case for case in outcome.results if case.workers == most):
        bars = []
        for candidate in outcome.candidates:
            speeds = outcome.speeds(case, candidate.name)
            if speeds and candidate.kind != "limit":
                middle = statistics.median(speeds)
                bars.append(Bar(candidate.name, middle, min(speeds), max(speeds), candidate.kind))
        bars.sort(key=lambda bar: -bar.value)
        name = outcome.limit(case)
        limit = (name, statistics.median(outcome.speeds(case, name))) if name else None
        if bars:
            panels.append(Panel(f"{WORDS[case.task]} · {case.place}", bars, limit))
    return svg("Images/s, median and range", panels)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return all measurements as JSON values."""
    return {
        "schema": "packer-bench-read-1",
        "packer": packer.__version__,
        "machine": machine(),
        "data": outcome.data.name,
        "batch_size": BATCH,
        "readers": [
            {
                "name": candidate.name,
                "kind": candidate.kind,
                "command": candidate.command,
                "versions": outcome.versions.get(candidate.name, {}),
                "checks": outcome.checks.get(candidate.name, {}),
            }
            for candidate in outcome.candidates
        ],
        "cases": [
            {
                "task": case.task,
                "workers": case.workers,
                "cache": case.cache,
                "fastest_peer": outcome.fastest_peer(case),
                "limit": outcome.limit(case),
                "rounds": rounds,
                "to_peer": {
                    name: outcome.ratios(case, name, outcome.fastest_peer(case)) for name in rounds
                },
                "to_limit": {
                    name: outcome.ratios(case, name, outcome.limit(case)) for name in rounds
                },
            }
            for case, rounds in outcome.results.items()
        ],
        "failures": outcome.failures,
    }
