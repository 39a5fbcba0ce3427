"""What a running command says on stderr: lines, warnings, a bar or a line now and then."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from packer.reporting import Progress, Reporter

#: Seconds between two lines in a log file: a three-hour job writes a few hundred.
_LOG_SECONDS = 30.0


def make_reporter(
    progress: str, *, quiet: bool, verbose: bool = False, unit: str = "images"
) -> StderrReporter:
    """The reporter for --progress, --quiet and --verbose; `unit` is what its progress counts."""
    if progress == "auto":
        progress = "bar" if sys.stderr.isatty() else "log"
    if quiet and progress in ("bar", "log"):
        progress = "none"
    kinds = {"bar": BarReporter, "log": LogReporter, "json": JsonReporter, "none": StderrReporter}
    reporter = kinds[progress](quiet=quiet, unit=unit)
    reporter.verbose = verbose and not quiet
    return reporter


class StderrReporter(Reporter):
    """Notes and warnings, no progress."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        self.quiet = quiet
        self.unit = unit
        self.verbose = False
        self.start = time.monotonic()

    def note(self, text: str) -> None:
        """A line unless --quiet."""
        if not self.quiet:
            self._line(text)

    def detail(self, text: str) -> None:
        """A line with --verbose."""
        if self.verbose:
            self.note(text)

    def warn(self, text: str) -> None:
        """A line, always."""
        self._line(f"warning: {text}")

    def close(self) -> None:
        """End whatever is open on the terminal."""

    def _line(self, text: str) -> None:
        click.echo(f"packer: {text}", err=True)

    def _rates(self, progress: Progress) -> tuple[float, float, float]:
        """images/s, MB/s read, seconds to go."""
        seconds = max(time.monotonic() - self.start, 1e-6)
        rate = progress.fresh / seconds
        left = (progress.total - progress.done) / rate if rate else 0.0
        return rate, progress.read / seconds / 1e6, left


class BarReporter(StderrReporter):
    """A progress bar on a terminal."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._bar: Any = None
        self._done = 0

    def progress(self, progress: Progress) -> None:
        """Move the bar."""
        if self._bar is None:
            self._bar = click.progressbar(
                length=progress.total,
                file=sys.stderr,
                item_show_func=self._text,
                show_pos=True,
                update_min_steps=1,
            )
            self._bar.__enter__()
        self._bar.update(progress.done - self._done, progress)
        self._done = progress.done

    def close(self) -> None:
        """Leave the bar's line."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None

    def _line(self, text: str) -> None:
        self.close()
        super()._line(text)

    def _text(self, progress: Progress | None) -> str:
        if progress is None:
            return ""
        rate, megabytes, _ = self._rates(progress)
        if self.unit != "images":
            return f"{megabytes:.1f} MB/s"
        return f"{rate:,.0f} images/s {megabytes:.0f} MB/s, {progress.skipped} skipped"


class LogReporter(StderrReporter):
    """A dated line every 30 s, without carriage returns."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._last = self.start

    def progress(self, progress: Progress) -> None:
        """A line if the last one is old enough."""
        now = time.monotonic()
        if now - self._last < _LOG_SECONDS:
            return
        self._last = now
        rate, megabytes, left = self._rates(progress)
        images = f" {rate:,.0f} images/s," if self.unit == "images" else ""
        skipped = f" {progress.skipped} skipped," if self.unit == "images" else ""
        self._line(
            f"{time.strftime('%Y-%m-%d %H:%M:%S')} {progress.done}/{progress.total} {self.unit},"
            f"{images} {megabytes:.0f} MB/s,{skipped} {left:,.0f} s to go"
        )


class JsonReporter(StderrReporter):
    """One event a line, for programs that watch."""

    def progress(self, progress: Progress) -> None:
        """An event."""
        rate, megabytes, left = self._rates(progress)
        self._event(
            "progress",
            done=progress.done,
            total=progress.total,
            skipped=progress.skipped,
            images_per_second=round(rate, 1),
            read_megabytes_per_second=round(megabytes, 1),
            seconds_left=round(left, 1),
        )

    def note(self, text: str) -> None:
        """An event."""
        self._event("note", text=text)

    def warn(self, text: str) -> None:
        """An event."""
        self._event("warning", text=text)

    def _event(self, kind: str, **values: Any) -> None:
        click.echo(json.dumps({"event": kind, "time": time.time(), **values}), err=True)
