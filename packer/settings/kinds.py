"""Kinds of option values. Each kind checks a value and returns the form in which it is kept.

Values come from Python code, from YAML, and as text from the command line or the environment; one
check serves all of them.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from packer.arguments import check_choice
from packer.errors import ConfigError
from packer.registry import is_offered, names
from packer.settings.parsing import doubt_shard_size, parse_bytes, parse_part, parse_size


class Kind(ABC):
    """One kind of value."""

    #: Placeholder of the value in help texts.
    metavar = "TEXT"

    @abstractmethod
    def check(self, name: str, value: Any) -> Any:
        """Check a value.

        Args:
            name: The option, for errors: "batch size".
            value: Any value of any type.

        Returns:
            The value as options keep it: 256 as a size is "256".

        Raises:
            ConfigError: The value has another type or is out of range.
        """

    def doubt(self, value: Any) -> str:
        """Return a warning for a valid value that is rarely meant; "" if there is none."""
        return ""


@dataclass(frozen=True)
class Flag(Kind):
    """True or false."""

    def check(self, name: str, value: Any) -> bool:
        """Take True and False, no other type."""
        if isinstance(value, bool):
            return value
        raise wrong_type(name, value, "true or false")


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number.

    Attributes:
        low: Smallest number; None if there is no limit.
        high: Largest number; None if there is no limit.
    """

    low: int | None = None
    high: int | None = None
    metavar = "NUMBER"

    def check(self, name: str, value: Any) -> int:
        """Take Python's and numpy's integers that are in range."""
        if "bool" in type(value).__name__:  # numpy's too
            raise wrong_type(name, value, "a whole number")
        try:
            number = operator.index(value)
        except TypeError:
            raise wrong_type(name, value, "a whole number") from None
        low, high = self.low, self.high
        if (low is not None and number < low) or (high is not None and number > high):
            limits = f"{low} to {high}" if high is not None else f"at least {low}"
            raise ConfigError(f"{name} {number} is out of range", limits)
        return number


@dataclass(frozen=True)
class Choice(Kind):
    """One of some names.

    Attributes:
        names: Returns the names; a function, as a registry may be asked for them.
    """

    names: Callable[[], tuple[str, ...]]

    def check(self, name: str, value: Any) -> str:
        """Take one of the names."""
        return check_choice(name, value, self.names(), ConfigError)


@dataclass(frozen=True)
class Named(Kind):
    """A name in a room of the registry: packer's own, or that of a plug-in.

    Attributes:
        room: "codecs", "formats" or "backends".
    """

    room: str

    def check(self, name: str, value: Any) -> str:
        """Take an offered name, without importing it."""
        if not isinstance(value, str) or not is_offered(self.room, value):
            check_choice(name, value, names(self.room), ConfigError)
        return str(value)


@dataclass(frozen=True)
class Text(Kind):
    """A text.

    Attributes:
        metavar: Placeholder in help texts.
        parse: Raises a ConfigError if the text has another form; its result is not kept.
    """

    metavar: str = "TEXT"
    parse: Callable[[str], object] = str

    def check(self, name: str, value: Any) -> str:
        """Take a text of the right form."""
        if not isinstance(value, str):
            raise wrong_type(name, value, "a text")
        self.parse(value)
        return value


@dataclass(frozen=True)
class Size(Kind):
    """A size in pixels, kept as text: "256" or "224x320" (width x height)."""

    metavar = "SIZE"

    def check(self, name: str, value: Any) -> str:
        """Take a text, a number of pixels, or a pair (width, height)."""
        if isinstance(value, (tuple, list)) and len(value) == 2:
            value = "x".join(str(Whole(1).check(name, side)) for side in value)
        elif not isinstance(value, str):
            try:
                value = str(Whole(1).check(name, value))
            except ConfigError as error:
                if "out of range" in error.message:
                    raise
                raise wrong_type(name, value, "a size: 256, or 224x320") from None
        parse_size(value, "exact")
        return str(value)


@dataclass(frozen=True)
class Bytes(Kind):
    """A number of bytes, at least 1; as text with a unit: "256MB", "1GiB"."""

    metavar = "SIZE"

    def check(self, name: str, value: Any) -> int:
        """Take a whole number, or a text with a unit."""
        return Whole(1).check(name, parse_bytes(value) if isinstance(value, str) else value)

    def doubt(self, value: Any) -> str:
        """Doubt a small number without a unit: 256 for 256MB."""
        return doubt_shard_size(value)


@dataclass(frozen=True)
class Part(Kind):
    """Part K of N, kept as (K, N); as text: "K/N"."""

    metavar = "K/N"

    def check(self, name: str, value: Any) -> tuple[int, int]:
        """Take a pair of whole numbers or a text K/N, with 0 <= K < N."""
        pair = parse_part(value) if isinstance(value, str) else value
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise wrong_type(name, value, "K/N")
        number, parts = (Whole().check(name, entry) for entry in pair)
        if not 0 <= number < parts:
            raise ConfigError(f"invalid {name} {number}/{parts}", "K/N with K from 0 to N-1")
        return number, parts


@dataclass(frozen=True)
class Names(Kind):
    """Some names, kept as a tuple."""

    metavar = "FOLDER"

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        """Take a tuple or a list of texts; a single text is an error, as it would be one name a
        letter.
        """
        if isinstance(value, (tuple, list)) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
        raise wrong_type(name, value, "a list of names")


def wrong_type(name: str, value: object, wanted: str) -> ConfigError:
    """Return the error for a value of another type or form than `wanted`."""
    return ConfigError(f"{name} {value!r:.200} is not {wanted}")
