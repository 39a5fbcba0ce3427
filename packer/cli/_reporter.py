"""What a running command says on stderr: lines, warnings, a bar or a line now and then."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import click

from packer import __version__
from packer.cli._job import batch_job
from packer.cli._options import WARNINGS
from packer.errors import EXIT_BROKEN_PIPE, INTERRUPTS, PackerError, TooManySkipped, UsageError
from packer.escape import BACKSLASH, escape
from packer.reporting import Progress, Reporter

#: Seconds between two lines in a log file: a three-hour job writes a few hundred.
_LOG_SECONDS = 30.0
#: Seconds between two progress events: what watches need not keep up with every batch.
_EVENT_SECONDS = 1.0
#: Characters of a message that are printed as they are.
_KEPT = f"{BACKSLASH}\n"
#: Ended by somebody's wish, not by something that went wrong.
_STOPPED = (TooManySkipped.exit_code, EXIT_BROKEN_PIPE, *(128 + number for number in INTERRUPTS))


class Running:
    """What the command that runs reports to; kept in click's context, for whoever ends it."""

    def __init__(self) -> None:
        self.reporter: StderrReporter | None = None


def make_reporter(
    progress: str, *, quiet: bool, verbose: bool = False, unit: str = "images"
) -> StderrReporter:
    """The reporter for --progress, --quiet and --verbose; `unit` is what its progress counts.

    Raises:
        UsageError: Both --quiet and --verbose.
    """
    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other", "use one of them")
    if progress == "auto":
        progress = "bar" if sys.stderr.isatty() else "log"
    if quiet and progress in ("bar", "log"):
        progress = "none"
    kinds = {"bar": BarReporter, "log": LogReporter, "json": JsonReporter, "none": StderrReporter}
    reporter = kinds[progress](quiet=quiet, unit=unit)
    reporter.verbose = verbose
    context = click.get_current_context(silent=True)
    running = context.find_object(Running) if context else None
    if context is not None and running is not None:
        running.reporter = reporter
        reporter.begin(context.info_name or "")
    for warning in context.meta.pop(WARNINGS, ()) if context else ():
        reporter.warn(warning)
    return reporter


def verdict(code: int) -> str:
    """What an exit code means, in one word."""
    if code == 0:
        return "done"
    return "stopped" if code in _STOPPED else "failed"


class StderrReporter(Reporter):
    """Notes and warnings, no progress."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        self.quiet = quiet
        self.unit = unit
        self.verbose = False
        self.start = self._rates_start = time.monotonic()
        self.last: Progress | None = None

    def start_rates(self) -> float:
        """Measure rates from now on, not from the command's start; the time in seconds."""
        self._rates_start = time.monotonic()
        return self._rates_start

    def begin(self, command: str) -> None:
        """Called once, when a command is about to work."""

    def progress(self, progress: Progress) -> None:
        """Kept for the last line."""
        self.last = progress

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

    def finish(self, code: int, error: PackerError | None) -> None:
        """The last that is said: what went wrong, if something did.

        Args:
            code: Exit code of the command.
            error: What it ended with; None for what needs no words, as a closed pipe.
        """
        self.close()
        if error is not None:
            self._line(error.message)
            if error.hint:
                self._line(error.hint)

    def _line(self, text: str) -> None:
        # Names in it may hold anything, and a terminal would act on control characters.
        click.echo(f"packer: {escape(text, keep=_KEPT)}", err=True)

    def _rates(self, progress: Progress) -> tuple[float, float, float]:
        """images/s, MB/s read, seconds to go."""
        seconds = max(time.monotonic() - self._rates_start, 1e-6)
        rate = progress.fresh / seconds
        left = (progress.total - progress.done) / rate if rate else 0.0
        return rate, progress.read / seconds / 1e6, left


class BarReporter(StderrReporter):
    """A progress bar on a terminal."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._bar: Any = None
        self._done = 0
        self._last = self.start

    def scanned(self, files: int) -> None:
        """A line now and then: how many there are in all is not known yet."""
        now = time.monotonic()
        if now - self._last >= _LOG_SECONDS:
            self._last = now
            self._line(f"scanning, {files:,} files so far")

    def progress(self, progress: Progress) -> None:
        """Move the bar."""
        super().progress(progress)
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
    """A dated line every 30 s and a last one with the verdict, without carriage returns."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._last = self.start

    def scanned(self, files: int) -> None:
        """A line if the last one is old enough."""
        if self._is_time():
            self._dated_line(f"scanning, {files} files so far")

    def progress(self, progress: Progress) -> None:
        """A line if the last one is old enough."""
        super().progress(progress)
        if not self._is_time():
            return
        rate, megabytes, left = self._rates(progress)
        images = f" {rate:,.0f} images/s," if self.unit == "images" else ""
        skipped = f" {progress.skipped} skipped," if self.unit == "images" else ""
        self._dated_line(
            f"{progress.done}/{progress.total} {self.unit},"
            f"{images} {megabytes:.0f} MB/s,{skipped} {left:,.0f} s to go"
        )

    def finish(self, code: int, error: PackerError | None) -> None:
        """What went wrong, and a line with the verdict, counts and time, for whoever looks last."""
        super().finish(code, error)
        said = verdict(code) + (f" (exit code {code})" if code else "")
        counts = []
        if self.last is not None:
            counts.append(f"{self.last.done}/{self.last.total} {self.unit}")
            if self.unit == "images":
                counts.append(f"{self.last.skipped} skipped")
        counts.append(f"{time.monotonic() - self.start:,.1f} s")
        self._dated_line(f"{said}: {', '.join(counts)}")

    def _is_time(self) -> bool:
        now = time.monotonic()
        if now - self._last < _LOG_SECONDS:
            return False
        self._last = now
        return True

    def _dated_line(self, text: str) -> None:
        self._line(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


class JsonReporter(StderrReporter):
    """One event a line, for programs that watch: `docs/slurm.md` has their fields."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._told = 0.0

    def begin(self, command: str) -> None:
        """The first event: who runs where."""
        self._event(
            "start",
            schema="packer.events/1",
            command=command,
            version=__version__,
            host=os.uname().nodename,
            pid=os.getpid(),
            job=batch_job(os.environ),
        )

    def scanned(self, files: int) -> None:
        """An event, at most once a second."""
        now = time.monotonic()
        if now - self._told >= _EVENT_SECONDS:
            self._told = now
            self._event("scan", files=files)

    def progress(self, progress: Progress) -> None:
        """An event, at most once a second; the last one, when all is done, always."""
        super().progress(progress)
        now = time.monotonic()
        if now - self._told < _EVENT_SECONDS and progress.done != progress.total:
            return
        self._told = now
        rate, megabytes, left = self._rates(progress)
        self._event(
            "progress",
            **self._counts(),
            per_second=round(rate, 1),
            read_megabytes_per_second=round(megabytes, 1),
            seconds_left=round(left, 1),
        )

    def note(self, text: str) -> None:
        """An event unless --quiet."""
        if not self.quiet:
            self._event("note", text=text)

    def warn(self, text: str) -> None:
        """An event, always."""
        self._event("warning", text=text)

    def finish(self, code: int, error: PackerError | None) -> None:
        """The last event."""
        said = {} if error is None else {"message": error.message, "hint": error.hint}
        seconds = round(time.monotonic() - self.start, 3)
        self._event(verdict(code), exit_code=code, **said, **self._counts(), seconds=seconds)

    def _counts(self) -> dict[str, Any]:
        if self.last is None:
            return {}
        counts = {"unit": self.unit, "done": self.last.done, "total": self.last.total}
        return {**counts, "skipped": self.last.skipped} if self.unit == "images" else counts

    def _event(self, kind: str, **values: Any) -> None:
        event = {"event": kind, "time": round(time.time(), 3), **values}
        click.echo(json.dumps(event), err=True)
