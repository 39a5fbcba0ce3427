"""The top command, and what happens to errors and signals."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import sys
import types

import click

from packer import __version__, registry
from packer.errors import Interrupted, PackerError, suggestion

#: What a shell reports for a process that wrote to a closed pipe.
_EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE


class _Verbs(click.Group):
    """Finds a verb's command by the name of its file."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registry.names("cli"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in registry.names("cli"):
            hint = suggestion(cmd_name, registry.names("cli"))
            raise click.UsageError(f"unknown command {cmd_name!r} ({hint})", ctx)
        command: click.Command = registry.load("cli", cmd_name).command
        return command


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", "show_version", is_flag=True, help="Print the version.")
@click.option("-v", "--verbose", is_flag=True, help="With --version: the imaging libraries too.")
@click.pass_context
def packer(ctx: click.Context, show_version: bool, verbose: bool) -> None:
    r"""Turn an image folder into sequential shards with a batch-level index, to train from.

    \b
        packer convert caltech256 --resize 256
    """
    if show_version:
        click.echo(f"packer {__version__}")
        if verbose:
            from packer.imaging import libraries

            for line in libraries.report():
                click.echo(line)
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    # Our parallel part is worker processes: they start by a fork, in a tenth of the time, while
    # this process has one thread, and numpy's linear algebra, which we do not use, starts more.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # File names that are no UTF-8 are printed as the bytes they are.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape")
    try:
        packer.main(arguments, prog_name="packer", standalone_mode=False)
        _finish_output()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (PackerError, click.Abort, OSError) as error:
        return _exit_code(error)
    return 0


def _finish_output() -> None:
    """A full disk behind `>` shows only here, on NFS only when synced, and must not exit with 0."""
    sys.stdout.flush()
    with contextlib.suppress(io.UnsupportedOperation):  # a caller's own stream without a file
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            os.fsync(sys.stdout.fileno())


def _exit_code(error: PackerError | click.Abort | OSError) -> int:
    """Say what went wrong, in one line, and what that is for the shell."""
    if isinstance(error, click.Abort):
        return 128 + signal.SIGINT
    if isinstance(error, PackerError):
        _say(error)
        return error.exit_code
    # Python's own last flush of what could not be written would fail and print again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        # The reader has enough (`packer ls PACK | head`): not an error, and nothing to say.
        return _EXIT_BROKEN_PIPE
    where = f"{error.filename}: " if error.filename else ""
    _say(PackerError(f"{where}{error.strerror or error}"))
    return PackerError.exit_code


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    """Unwind on the first signal; the second one ends the process as it would any other."""
    signal.signal(number, signal.SIG_DFL)
    raise Interrupted(number)


def _say(error: PackerError) -> None:
    click.echo(f"packer: {error.message}", err=True)
    if error.hint:
        click.echo(f"packer: {error.hint}", err=True)
