"""The top command; handles errors and signals."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import sys
import types
from typing import Any, TextIO

import click

from packer import __version__, registry
from packer.cli._environment import load_command, misspelt
from packer.cli._options import WARNINGS
from packer.cli._reporter import Running, StderrReporter
from packer.deferral import heeded_signals
from packer.errors import EXIT_BROKEN_PIPE, Interrupted, PackerError, suggestion
from packer.escape import BACKSLASH, escape


class _PipeClosed(Exception):
    """The reader of stdout or stderr has closed it. (Click would exit with 1.)"""


class _Verbs(click.Group):
    """Finds the command of a verb by the name of its file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for before, argument in zip(("packer", *args), args, strict=False):
            name, is_assigned, value = argument.partition("=")
            if argument and not (name.startswith("--") and is_assigned and not value):
                continue
            what = name if argument else f"the argument after {before!r}"
            raise click.UsageError(f"{what} is empty: a variable that is not set?", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosed from error
        finally:
            for warning in ctx.meta.pop(WARNINGS, ()):  # of a command without a reporter
                StderrReporter(quiet=False).warn(warning)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registry.names("cli"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in registry.names("cli"):
            hint = suggestion(cmd_name, registry.names("cli"))
            raise click.UsageError(f"unknown command {cmd_name!r} ({hint})", ctx)
        return load_command(cmd_name)


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    epilog="Example: packer convert ./FOLDER --resize 256",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", "show_version", is_flag=True, help="Print the version.")
@click.option("-v", "--verbose", is_flag=True, help="With --version: libraries and plug-ins too.")
@click.pass_context
def packer(ctx: click.Context, show_version: bool, verbose: bool) -> None:
    """Turn an image folder into sequential shards with a batch-level index, to train from."""
    if show_version:
        click.echo(f"packer {__version__}")
        if verbose:
            from packer.imaging import libraries

            for line in (*libraries.report(), *registry.report()):
                click.echo(line)
        ctx.exit()
    if verbose:
        verb = ctx.invoked_subcommand or "COMMAND"
        raise click.UsageError(f"-v goes after the command (packer {verb} -v), or with --version")
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    else:
        ctx.meta[WARNINGS] = misspelt(os.environ, ctx.invoked_subcommand)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    _open_closed_streams()
    for number in heeded_signals():
        signal.signal(number, _interrupt)
    # Worker processes start by a fork, in a tenth of the time, as long as this process has one
    # thread. The linear algebra library of numpy, which packer does not use, would start more.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # File names are printed as the bytes they are, whatever the locale: see `types.display_path`.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    running = Running()
    try:
        code, error = _outcome(arguments, running)
    except Exception:  # a defect of packer: it needs its traceback
        _finish(running, PackerError.exit_code, None)
        raise
    _finish(running, code, error)
    return code


def _outcome(arguments: list[str], running: Running) -> tuple[int, PackerError | None]:
    """Run the command; return its exit code, and the error that is not printed yet."""
    try:
        packer.main(arguments, prog_name="packer", standalone_mode=False, obj=running)
        _finish_output()
    except click.exceptions.Exit as error:
        return error.exit_code, None
    except click.ClickException as error:
        return _wrong_usage(error, running)
    except PackerError as error:
        return error.exit_code, error
    except (_PipeClosed, BrokenPipeError):
        # Not an error, and without a message (`packer ls PACK | head`).
        _silence(sys.stdout)
        return EXIT_BROKEN_PIPE, None
    except (OSError, MemoryError, ImportError, RuntimeError) as error:
        return PackerError.exit_code, _unforeseen(error)
    return 0, None


def _unforeseen(error: Exception) -> PackerError:
    """Return the error to print for one that no library code handles: stdout or stderr cannot be
    written, or the system refuses memory or threads. Raise any other error again.
    """
    from packer.packing.workers.limits import is_memory_refusal, is_thread_refusal, why_refused

    if is_memory_refusal(error):
        hint = "allow more memory, or use fewer --jobs or a smaller --batch-size"
        return PackerError(why_refused(error), hint)
    if is_thread_refusal(error):
        return PackerError(why_refused(error), "raise the limit, or end other processes")
    if not isinstance(error, OSError):
        raise error
    _silence(sys.stdout)
    where = f"{error.filename}: " if error.filename else ""
    return PackerError(f"{where}{error.strerror or error}")


def _wrong_usage(error: click.ClickException, running: Running) -> tuple[int, PackerError | None]:
    if running.reporter is not None:
        return error.exit_code, PackerError(error.format_message())
    # A shell may have expanded file names, which may contain control characters.
    text = escape(error.format_message(), keep=f"{BACKSLASH}\n")
    click.UsageError(text, getattr(error, "ctx", None)).show()
    return error.exit_code, None


def _finish(running: Running, code: int, error: PackerError | None) -> None:
    """Print the last lines. From here on a signal ends packer like any other process."""
    for number in heeded_signals():
        signal.signal(number, signal.SIG_DFL)
    try:
        (running.reporter or StderrReporter(quiet=False)).finish(code, error)
    except OSError:  # stderr is closed; the exit code remains
        _silence(sys.stderr)


def _open_closed_streams() -> None:
    """Open streams that are closed (`2>&-`). The next opened file, a shard, would get the number of
    the stream, and with it the stream's output. stdout is opened for reading: its output would be
    lost, so writing must fail.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115


def _finish_output() -> None:
    """Flush and sync stdout: a full disk behind `>` shows only here (on NFS only when synced)."""
    sys.stdout.flush()
    with contextlib.suppress(io.UnsupportedOperation):  # a caller's own stream without a file
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            os.fsync(sys.stdout.fileno())


def _silence(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: Python's last flush of it would fail and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Unwind on the first signal; the second one ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Interrupted(number)
