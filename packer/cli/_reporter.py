"""Output of a running command on stderr: notes, warnings, and progress as a bar or lines."""

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
from packer.wording import count

#: Seconds between two progress lines in a log file: a three-hour job writes 360.
_LOG_SECONDS = 30.0
#: Seconds between two progress events, so that a watching program does not get one a batch.
_EVENT_SECONDS = 1.0
#: Control characters of a message that are printed unescaped.
_KEPT = f"{BACKSLASH}\n"
#: Exit codes of a command that was stopped on purpose and did not fail.
_STOPPED = (TooManySkipped.exit_code, EXIT_BROKEN_PIPE, *(128 + number for number in INTERRUPTS))


class Running:
    """Holds the reporter of the running command, in click's context, for its last lines."""

    def __init__(self) -> None:
        self.reporter: StderrReporter | None = None


def make_reporter(
    progress: str, *, quiet: bool, verbose: bool = False, unit: str = "images"
) -> StderrReporter:
    """Return the reporter for --progress, --quiet and --verbose; `unit` names what it counts.

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
    """Return the meaning of an exit code in one word."""
    if code == 0:
        return "done"
    return "stopped" if code in _STOPPED else "failed"


class StderrReporter(Reporter):
    """Prints notes and warnings, no progress."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        self.quiet = quiet
        self.unit = unit
        self.verbose = False
        self.start = self._rates_start = time.monotonic()
        self.last: Progress | None = None

    def start_rates(self) -> float:
        """Measure rates from now on, not from the command's start; return the time in seconds."""
        self._rates_start = time.monotonic()
        return self._rates_start

    def begin(self, command: str) -> None:
        """Print the first line, if there is one; called once, before a command starts its work."""

    def progress(self, progress: Progress) -> None:
        """Keep the progress for the last line."""
        self.last = progress

    def note(self, text: str) -> None:
        """Print a line unless --quiet."""
        if not self.quiet:
            self._line(text)

    def detail(self, text: str) -> None:
        """Print a line with --verbose."""
        if self.verbose:
            self.note(text)

    def warn(self, text: str) -> None:
        """Print a line, also with --quiet."""
        self._line(f"warning: {text}")

    def close(self) -> None:
        """End an open progress bar."""

    def finish(self, code: int, error: PackerError | None) -> None:
        """Print the error, if there is one.

        Args:
            code: Exit code of the command.
            error: The error that ended it; None for success and for ends without a message, such
                as a closed pipe.
        """
        self.close()
        if error is not None:
            self._line(error.message)
            if error.hint:
                self._line(error.hint)

    def _line(self, text: str) -> None:
        # File names may contain control characters, which a terminal would obey.
        click.echo(f"packer: {escape(text, keep=_KEPT)}", err=True)

    def _rates(self, progress: Progress) -> tuple[float, float, float]:
        """Return images/s, MB/s read, and the remaining seconds."""
        seconds = max(time.monotonic() - self._rates_start, 1e-6)
        rate = progress.fresh / seconds
        left = (progress.total - progress.done) / rate if rate else 0.0
        return rate, progress.read / seconds / 1e6, left


class BarReporter(StderrReporter):
    """Shows a progress bar on a terminal."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._bar: Any = None
        self._done = 0
        self._last = self.start

    def scanned(self, files: int) -> None:
        """Print a line every 30 s: the total, which a bar needs, is not known yet."""
        now = time.monotonic()
        if now - self._last >= _LOG_SECONDS:
            self._last = now
            self._line(f"scanning, {count(files, 'file', ',')} so far")

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
        """End the line of the bar."""
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
    """Prints a dated line every 30 s and a last line with the verdict, without carriage returns."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._last = self.start

    def scanned(self, files: int) -> None:
        """Print a line if the last one is older than 30 s."""
        if self._is_time():
            self._dated_line(f"scanning, {count(files, 'file')} so far")

    def progress(self, progress: Progress) -> None:
        """Print a line if the last one is older than 30 s."""
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
        """Print the error, then a line with the verdict, counts and time."""
        super().finish(code, error)
        ending = verdict(code) + (f" (exit code {code})" if code else "")
        counts = []
        if self.last is not None:
            counts.append(f"{self.last.done}/{self.last.total} {self.unit}")
            if self.unit == "images":
                counts.append(f"{self.last.skipped} skipped")
        counts.append(f"{time.monotonic() - self.start:,.1f} s")
        self._dated_line(f"{ending}: {', '.join(counts)}")

    def _is_time(self) -> bool:
        now = time.monotonic()
        if now - self._last < _LOG_SECONDS:
            return False
        self._last = now
        return True

    def _dated_line(self, text: str) -> None:
        self._line(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


class JsonReporter(StderrReporter):
    """Prints one JSON event a line, for programs; `docs/slurm.md` lists their fields."""

    def __init__(self, *, quiet: bool, unit: str = "images") -> None:
        super().__init__(quiet=quiet, unit=unit)
        self._last_event = 0.0

    def begin(self, command: str) -> None:
        """Print the first event: command, version, host, process and batch job."""
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
        """Print an event, at most one a second."""
        now = time.monotonic()
        if now - self._last_event >= _EVENT_SECONDS:
            self._last_event = now
            self._event("scan", files=files)

    def progress(self, progress: Progress) -> None:
        """Print an event, at most one a second; the last one, when all is done, always."""
        super().progress(progress)
        now = time.monotonic()
        if now - self._last_event < _EVENT_SECONDS and progress.done != progress.total:
            return
        self._last_event = now
        rate, megabytes, left = self._rates(progress)
        self._event(
            "progress",
            **self._counts(),
            per_second=round(rate, 1),
            read_megabytes_per_second=round(megabytes, 1),
            seconds_left=round(left, 1),
        )

    def note(self, text: str) -> None:
        """Print an event unless --quiet."""
        if not self.quiet:
            self._event("note", text=text)

    def warn(self, text: str) -> None:
        """Print an event, also with --quiet."""
        self._event("warning", text=text)

    def finish(self, code: int, error: PackerError | None) -> None:
        """Print the last event."""
        details = {} if error is None else {"message": error.message, "hint": error.hint}
        seconds = round(time.monotonic() - self.start, 3)
        self._event(verdict(code), exit_code=code, **details, **self._counts(), seconds=seconds)

    def _counts(self) -> dict[str, Any]:
        if self.last is None:
            return {}
        counts = {"unit": self.unit, "done": self.last.done, "total": self.last.total}
        return {**counts, "skipped": self.last.skipped} if self.unit == "images" else counts

    def _event(self, kind: str, **values: Any) -> None:
        event = {"event": kind, "time": round(time.time(), 3), **values}
        click.echo(json.dumps(event), err=True)
