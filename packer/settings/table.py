"""One row of the table of options, and the dataclass field that holds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from packer.settings.kinds import Kind

T = TypeVar("T")

#: Sections of options, in help texts and docs/options.md. Options of the last one may differ
#: between the runs that make one pack; all others decide what is in the pack.
PICTURES, PACK, RUN = SECTIONS = ("Pictures", "Pack", "Run")


@dataclass(frozen=True)
class Option:
    """One option of a conversion: a row of the table.

    Attributes:
        name: Field of `ConvertOptions`.
        default: Its default.
        section: One of `SECTIONS`.
        kind: Checks its values.
        help: What it does, in one line.
        word: Its name on the command line (without dashes in front) and in YAML files.
        short: One-letter flag on the command line, or "".
        shown: The default as a user writes it, or what happens without the option.
        in_writer: Whether a PackWriter uses it.
        in_recipe: Whether a recipe may set it.
        idle: Returns why the option has no effect beside others, "" if it has one. None if it
            always has one, or if that depends on the pictures (`background`: is one transparent?).
    """

    name: str
    default: Any
    section: str
    kind: Kind
    help: str
    word: str = ""
    short: str = ""
    shown: str = ""
    in_writer: bool = False
    in_recipe: bool = True
    idle: Callable[[Any], str] | None = None

    @property
    def affects_bytes(self) -> bool:
        """Whether it decides what is in the pack."""
        return self.section != RUN

    def check(self, value: Any) -> Any:
        """Check a value and return the form in which it is kept.

        Raises:
            ConfigError: The value has another type or is out of range.
        """
        if value is None and self.default is None:
            return None
        return self.kind.check(self.name.replace("_", " "), value)


def option(default: T, section: str, kind: Kind, help: str, **more: Any) -> T:
    """Return a dataclass field with a row of the table as its metadata."""
    row = {"section": section, "kind": kind, "help": help, **more}
    field: T = dataclasses.field(default=default, metadata=row)
    return field


def rows_of(options: Any) -> Mapping[str, Option]:
    """Return the rows of a dataclass whose fields are made by `option`, by the fields' names."""
    found = {}
    for field in dataclasses.fields(options):
        row = {"word": field.name.replace("_", "-"), **field.metadata}
        found[field.name] = Option(field.name, field.default, **row)
    return found
