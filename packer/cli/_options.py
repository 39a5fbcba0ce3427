"""Click options: those that several verbs share, and those made from the table of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from packer import registry
from packer.cli._environment import path_variable
from packer.errors import ConfigError, suggestion
from packer.settings.kinds import Choice, Flag, Kind, Named, Names, Whole
from packer.settings.options import OPTIONS
from packer.settings.table import Option as Row

F = TypeVar("F", bound=Callable[..., Any])

#: Key in a click context's `meta`: a list of warnings that parsing options led to.
WARNINGS = "packer.warnings"


class Option(click.Option):
    """An option that shows its default, and names its variable in errors about the environment.

    Args:
        section: Title of the part of the help that lists it; "" for the last part.
        is_path: An empty variable is an error: the default may be another folder.
        late_help: Returns the help text when it is printed; for a text that takes imports.
    """

    def __init__(
        self,
        *names: Any,
        section: str = "",
        is_path: bool = False,
        late_help: Callable[[], str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*names, **{"show_default": True, **settings})
        self.section = section
        self._is_path = is_path
        self._late_help = late_help

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the variable."""
        if self._is_path:
            path_variable(str(self.envvar))
        return super().resolve_envvar_value(ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the origin of a wrong value: the variable, or the flag."""
        if ctx and self.name and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT:
            return str(self.envvar)
        return super().get_error_hint(ctx)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flags and the help text."""
        if self._late_help is not None:
            self.help = self._late_help()
        return super().get_help_record(ctx)


class SectionedCommand(click.Command):
    """A command whose help lists options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, in the order of their first options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                title = getattr(param, "section", "") or "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Name(click.Choice):  # type: ignore[type-arg]
    """One of some names; an error suggests the closest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a known name."""
        if value in self.choices:
            return value
        names = [str(name) for name in self.choices]
        hint = suggestion(str(value), names)
        meant = f" ({hint})" if hint.startswith("did you mean") else ""
        self.fail(f"{value!r} is none of {', '.join(names)}{meant}", param, ctx)


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


class Checked(click.ParamType):  # type: ignore[type-arg]
    """A text that an option's own kind checks; a doubtful value leads to a warning."""

    def __init__(self, label: str, kind: Kind) -> None:
        self.name = kind.metavar
        self._label = label
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value as options keep it."""
        try:
            checked = self._kind.check(self._label, value)
            doubt = self._kind.doubt(value) if isinstance(value, str) else ""
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if ctx is not None and doubt:
            ctx.meta.setdefault(WARNINGS, []).append(doubt)
        return checked


class Folder(click.ParamType):  # type: ignore[type-arg]
    """A folder's name. A variable separates several by colons, as names may hold spaces."""

    name = "folder"
    envvar_list_splitter = ":"


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds an `Option`."""
    return click.option(*names, cls=Option, **settings)


def convert_options(function: F) -> F:
    """Add all options of the table."""
    for row in reversed(tuple(OPTIONS.values())):
        flag = f"--{row.word}/--no-{row.word}" if row.default is True else f"--{row.word}"
        names = [f"-{row.short}"] if row.short else []
        settings: dict[str, Any] = {"section": row.section, "help": row.help}
        if row.shown:
            settings["show_default"] = row.shown
        if row.default is not None:
            settings["default"] = row.default
        settings |= _of_kind(row)
        function = option(*names, flag, row.name, **settings)(function)
    return function


def _of_kind(row: Row) -> dict[str, Any]:
    kind = row.kind
    if isinstance(kind, Flag):
        return {"is_flag": True}
    if isinstance(kind, Named | Choice):
        return {"type": Offered(kind.room) if isinstance(kind, Named) else Name(kind.names())}
    if kind == Whole():
        return {"type": int}
    if isinstance(kind, Whole):
        return {"type": click.IntRange(kind.low, kind.high)}
    if isinstance(kind, Names):
        return {"type": Folder(), "multiple": True, "metavar": kind.metavar}
    return {"type": Checked(row.word.replace("-", " "), kind), "metavar": kind.metavar}


def json_option(function: F) -> F:
    """Add --json."""
    return option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def reporting_options(function: F) -> F:
    """Add -q, -v, --progress, --json."""
    for decorate in (
        json_option,
        option(
            "--progress",
            type=Name(["auto", "bar", "log", "json", "none"]),
            default="auto",
            help="auto: a bar on a terminal, a line every 30 s elsewhere; json: events on stderr.",
        ),
        option("-v", "--verbose", is_flag=True, help="Print more on stderr."),
        option("-q", "--quiet", is_flag=True, help="Print only warnings and errors on stderr."),
    ):
        function = decorate(function)
    return function
