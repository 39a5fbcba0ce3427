"""Option types and groups that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from packer import registry
from packer.errors import ConfigError, suggestion

F = TypeVar("F", bound=Callable[..., Any])


#: Key in a click context's `meta`: a list of warnings that parsing options led to.
WARNINGS = "packer.warnings"


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: 256MB, 1GiB, 300000000. A small number without a unit leads to a warning,
    as it is rarely meant.
    """

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse what the user wrote."""
        from packer.settings.parsing import doubt_shard_size, parse_bytes

        try:
            size = parse_bytes(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        # What is a number already comes from a config, which was checked when it was read.
        if ctx is not None and isinstance(value, str) and (doubt := doubt_shard_size(value)):
            ctx.meta.setdefault(WARNINGS, []).append(doubt)
        return size


class Name(click.Choice):  # type: ignore[type-arg]
    """One of some names; suggests the one that was meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a name that is there."""
        if value in self.choices:
            return value
        names = [str(name) for name in self.choices]
        self.fail(f"{value!r} is none of {', '.join(names)}{_meant(value, names)}", param, ctx)


class Offered(Name):
    """One of the names in a room of `packer.registry`.

    The names of plug-ins are looked up only for `--help` and for a name that is not packer's own.
    """

    def __init__(self, room: str) -> None:
        super().__init__(registry.own_names(room))
        self.room = room

    def get_metavar(self, *arguments: Any, **named: Any) -> str | None:
        """List all names, for `--help`."""
        self.choices = registry.names(self.room)
        return super().get_metavar(*arguments, **named)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a name that is offered."""
        if value not in self.choices:
            self.choices = registry.names(self.room)
        return super().convert(value, param, ctx)


def _meant(value: str, names: list[str]) -> str:
    hint = suggestion(str(value), names)
    return f" ({hint})" if hint.startswith("did you mean") else ""


class Part(click.ParamType):  # type: ignore[type-arg]
    """K/N: part K (from 0) of N."""

    name = "K/N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Parse what the user wrote."""
        if isinstance(value, tuple):
            return value
        from packer.settings.parsing import parse_part

        part = parse_part(str(value))
        if part is None or part[0] >= part[1]:
            self.fail(f"{value!r} is not K/N with K from 0 to N-1", param, ctx)
        return part


class _PathOption(click.Option):
    """An option for a path, whose variable must not be empty: what it would have said is not known,
    and the default may be another folder.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Look into the environment."""
        path_variable(str(self.envvar))
        return super().resolve_envvar_value(ctx)


def path_variable(name: str) -> Path | None:
    """The path that a variable of the environment holds; None if it is not set.

    Raises:
        click.UsageError: It is empty.
    """
    value = os.environ.get(name)
    if value == "":
        raise click.UsageError(
            f"{name} is empty: a variable that is not set? unset {name}, or fill it"
        )
    return None if value is None else Path(value)


def path_option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An `option` for a path."""
    return option(*names, cls=_PathOption, **settings)


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option that can also be set by PACKER_NAME in the environment, and shows defaults."""
    name = next(name for name in reversed(names) if name.startswith("--"))
    variable = "PACKER_" + name.removeprefix("--").split("/")[0].replace("-", "_").upper()
    settings.setdefault("envvar", variable)
    settings.setdefault("show_default", True)
    return click.option(*names, **settings)


def reporting_options(function: F) -> F:
    """-q, -v, --progress, --json."""
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        option(
            "--progress",
            type=Name(["auto", "bar", "log", "json", "none"]),
            default="auto",
            help="auto: a bar on a terminal, a line every 30 s elsewhere; json: events on stderr.",
        ),
        click.option("-v", "--verbose", is_flag=True, help="Say more on stderr."),
        click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors on stderr."),
    ):
        function = decorate(function)
    return function
