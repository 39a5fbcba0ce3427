"""Tables of all options, made from the table in packer/settings/options.py: options.md.

    python docs/options.py > docs/options.md

Run by tests/settings/test_options_page.py, which compares options.md with what this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from packer import registry
from packer.cli._environment import SHARED, load_command, long_flag
from packer.cli._options import Option
from packer.settings.kinds import Choice, Named
from packer.settings.options import OPTIONS
from packer.settings.table import SECTIONS

HEAD = """\
# Options

<!-- Made by docs/options.py; do not edit. -->

An option of `packer convert` can be set in five places. A flag goes before the environment, that
before a config (`--config`), that before a recipe, and that before the default. The name in YAML
files (configs, and `options:` of recipes) is the flag without its dashes; in Python it is a field
of `ConvertOptions`, with underscores. An empty variable counts as not set,
but an empty path is an error. In variables, flags are 1 or 0, and colons separate several names.

A wrong value is an error, wherever it is written. An option without effect beside the others
(`--quality 80` with `--codec png`) is an error as a flag, and a warning from everywhere else. A
variable that looks like a misspelt one leads to a warning.
"""


#: Parameters of all commands that work; in the table of `packer convert`.
REPORTING = ("quiet", "verbose", "progress", "as_json")
#: Context that methods of click need.
CONTEXT = click.Context(click.Command("packer"))


def page() -> str:
    """Return the whole page."""
    return "\n".join((HEAD, *_convert(), *_others()))


def _convert() -> Iterator[str]:
    flags = {option.name: option for option in _options(load_command("convert"))}
    for section in SECTIONS:
        yield f"## {section}\n"
        rows = []
        for name, row in OPTIONS.items():
            if row.section != section:
                continue
            names = ""
            if isinstance(row.kind, Named):
                names = f" One of {', '.join(registry.own_names(row.kind.room))}, or a plug-in."
            elif isinstance(row.kind, Choice):
                names = f" One of {', '.join(row.kind.names())}."
            field = "" if name == row.word.replace("-", "_") else f" In Python: `{name}`."
            where = "" if row.in_recipe else " Not in recipes."
            rows.append((
                f"`--{row.word}`", f"`{flags[name].envvar}`", f"`{row.word}`",
                row.shown or _text(row.default), f"{row.help}{names}{field}{where}",
            ))  # fmt: skip
        yield _table(("option", "environment", "YAML", "default", ""), rows)
    yield "## This command alone\n\nNot in YAML files.\n"
    own = [option for option in flags.values() if option.name not in OPTIONS]
    yield _table(("option", "environment", "default", ""), [_row(option) for option in own])


def _others() -> Iterator[str]:
    shared = ", ".join(f"`--{name}`" for name in SHARED)
    yield (
        "## Other commands\n\nThe variable is PACKER_COMMAND_OPTION. These options have the same"
        f" variable in all commands, without the command: {shared}.\n"
    )
    rows = []
    for verb in registry.names("cli"):
        command = load_command(verb)
        found = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for one in found:
            name = verb if one is command else f"{verb} {one.name}"
            options = [option for option in _options(one) if option.name not in REPORTING]
            rows += [(f"`{name}`", *_row(option)) for option in options if verb != "convert"]
    yield _table(("command", "option", "environment", "default", ""), rows)


def _options(command: click.Command) -> list[Option]:
    return [one for one in command.params if isinstance(one, Option)]


def _row(option: Option) -> tuple[str, str, str, str]:
    option.get_help_record(CONTEXT)  # completes a late help text
    default = option.show_default if isinstance(option.show_default, str) else ""
    default = default or ("off" if option.is_flag else _text(option.default))
    return f"`{long_flag(option)}`", f"`{option.envvar}`", default, option.help or ""


def _text(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default) if isinstance(default, (str, int, float)) else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |\n"
        for line in lines
    )


if __name__ == "__main__":
    sys.stdout.write(page())
