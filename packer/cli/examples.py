"""`packer examples`."""

from __future__ import annotations

import ast
import importlib.resources
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packer.cli._options import option

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # Python 3.11 or later


@click.command()
@click.argument("name", required=False)
@option(
    "--all",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path),
    is_path=True,
    help="Copy all of them into a new folder.",
)
def command(name: str | None, target: Path | None) -> None:
    """List the training and SLURM scripts that come with packer, or print one.

    To copy one: packer examples train_ddp > train_ddp.py
    """
    from packer.errors import UsageError, suggestion
    from packer.types import display_text

    files = _files()
    if target is not None:
        if name is not None:
            raise UsageError(f"--all copies every script, not only {name!r}", "give one of the two")
        _copy(files, target)
        click.echo(display_text(os.fspath(target.absolute())))
    elif name is None:
        width = max(map(len, files)) + 2
        for known, file in files.items():
            click.echo(f"{known:<{width}}{_summary(file)}")
    elif name.removesuffix(".py") in files:
        click.echo(files[name.removesuffix(".py")].read_text(encoding="utf-8"), nl=False)
    else:
        raise UsageError(f"unknown example {name!r}", suggestion(name, files))


def _files() -> dict[str, Traversable]:
    """Return the scripts by name: `train` for examples/train.py, `slurm/train.sh`."""
    found = {}
    for folder in ("examples", "slurm"):
        for file in importlib.resources.files(f"packer.{folder}").iterdir():
            if file.is_file() and file.name != "__init__.py":
                prefix = "" if file.name.endswith(".py") else f"{folder}/"
                found[prefix + file.name.removesuffix(".py")] = file
    return dict(sorted(found.items(), key=lambda item: ("/" in item[0], item[0])))


def _summary(file: Traversable) -> str:
    """Return the first line of a module's docstring, or of a shell script's leading comment."""
    text = file.read_text(encoding="utf-8")
    if file.name.endswith(".py"):
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return text.splitlines()[1].removeprefix("# ")  # the first line names the interpreter


def _copy(files: dict[str, Traversable], target: Path) -> None:
    """Copy the scripts into a new folder, in their subfolders: they refer to each other by path."""
    from packer.errors import OutputError

    try:
        target.mkdir(parents=True)
        for name, file in files.items():
            path = target / ("slurm" if "/" in name else "examples") / file.name
            path.parent.mkdir(exist_ok=True)
            text = file.read_bytes()
            path.write_bytes(text)
            if text.startswith(b"#!"):
                mode = path.stat().st_mode
                path.chmod(mode | (mode & 0o444) >> 2)  # executable for all who can read it
    except FileExistsError:
        raise OutputError(f"{target}: already there", "name a new folder") from None
