"""Variables of the environment: one for each option of each command.

An option of `packer convert` has the variable PACKER_OPTION (PACKER_RESIZE), an option of another
command PACKER_COMMAND_OPTION (PACKER_VERIFY_DECODE). The options in `SHARED` mean the same in all
commands and have one variable, without the command. Options of `packer` itself (--version, --help)
have none.
"""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from packer import registry

PREFIX = "PACKER_"
#: Options that have the same variable in all commands.
SHARED = ("progress", "quiet", "verbose", "json", "jobs", "max-skipped")
#: Other variables of packer, and of the scripts that call it.
OTHER = (
    *("PACKER_DATA", "PACKER_PYTHON", "PACKER_RANKS", "PACKER_SETUP", "PACKER_STAGE"),
    *("PACKER_VENV",),
)
#: First parts of further variables that are not options.
OTHER_PREFIXES = ("PACKER_SBATCH_", "PACKER_TEST_")
#: Least likeness of a misspelt variable to the right one, from 0 to 1: RESZIE has 0.83 to RESIZE,
#: CONFIG_DIR (of another program named packer) has 0.75 to CONFIG.
_LIKENESS = 0.8


@functools.cache
def load_command(verb: str) -> click.Command:
    """Import a verb's command and name the variables of its options.

    Args:
        verb: A file of this folder: "convert".
    """
    command: click.Command = registry.load("cli", verb).command
    _name_variables(command, verb)
    return command


def variables(verb: str) -> dict[str, str]:
    """Return the flags of a verb's options by their variables: {"PACKER_RESIZE": "--resize"}."""
    return {
        str(option.envvar): long_flag(option)
        for command in _commands(load_command(verb))
        for option in _options(command)
    }


def misspelt(environ: Mapping[str, str], verb: str) -> list[str]:
    """Return a warning for each variable that looks like a misspelt variable of an option.

    Args:
        environ: The environment.
        verb: The command that runs; an option's name without the command is meant for it.
    """
    names = [name for name in environ if name.startswith(PREFIX) and name not in OTHER]
    names = [name for name in names if not name.startswith(OTHER_PREFIXES)]
    if not set(names) - variables(verb).keys():
        return []  # without importing the other commands
    known = {name for other in registry.names("cli") for name in variables(other)}
    found = []
    for name in sorted(set(names) - known):
        own = f"{PREFIX}{verb.upper()}_{name.removeprefix(PREFIX)}"
        near = [own] if own in known else _close(name, known)
        if near:
            found.append(f"{name} has no effect: no option has this variable; {near[0]} is one")
    return found


def path_variable(name: str) -> Path | None:
    """Return the path in a variable; None if the variable is not set.

    Raises:
        click.UsageError: The variable is empty.
    """
    value = os.environ.get(name)
    if value == "":
        raise click.UsageError(
            f"{name} is empty: a variable that is not set? unset {name}, or fill it"
        )
    return None if value is None else Path(value)


def long_flag(option: click.Option) -> str:
    """Return an option's long flag: "--jobs" of -j/--jobs."""
    return next(flag for flag in option.opts if flag.startswith("--"))


def _name_variables(command: click.Command, verb: str) -> None:
    for one in _commands(command):
        options = list(_options(one))
        for option in options:
            word = long_flag(option).removeprefix("--")
            own = verb == "convert" or word in SHARED
            name = word if own else f"{verb}-{word}"
            option.envvar = PREFIX + name.replace("-", "_").upper()
        if options:
            example = f"{long_flag(options[0])} by {options[0].envvar}"
            lines = (
                one.epilog,
                f"Each option can also be set in the environment: {example}, and so on.",
            )
            one.epilog = "\n\n".join(filter(None, lines))


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        yield from command.commands.values()


def _options(command: click.Command) -> Iterator[click.Option]:
    return (one for one in command.params if isinstance(one, click.Option))


def _close(name: str, known: set[str]) -> list[str]:
    words = {variable.removeprefix(PREFIX): variable for variable in sorted(known)}
    near = difflib.get_close_matches(name.removeprefix(PREFIX), words, n=1, cutoff=_LIKENESS)
    return [words[word] for word in near]
