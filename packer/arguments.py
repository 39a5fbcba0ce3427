"""Checks of arguments that users give: choices, whole numbers, names.

Python's own errors do not help here: it accepts any value for a choice, and for an unknown keyword
it says nothing about the argument that was meant.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, ParamSpec, TypeVar

from packer.errors import UsageError, closest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=str)

#: Longest text of a value in a message; arrays and tensors have texts of any length.
_SHOWN = 60


def check_choice(
    name: str, value: object, choices: Sequence[C], kind: type[UsageError] = UsageError
) -> C:
    """Return the choice that a value names.

    Args:
        name: Name of the argument.
        value: The value that was given, of any type.
        choices: All valid values.
        kind: Class of the error.

    Raises:
        UsageError: The value is none of the choices.
    """
    for choice in choices if isinstance(value, str) else ():
        if choice == value:
            return choice  # plain text, also for a member of a text enum
    known = "known: " + ", ".join(map(repr, choices))
    close = closest(value, choices)
    hint = known if close is None else f"did you mean {close!r}? {known}"
    raise kind(f"unknown {name} {shown(value)}", hint)


def check_integer(name: str, value: Any, least: int | None = None) -> int:
    """Return a whole number as int.

    Args:
        name: Name of the argument.
        value: The value that was given, of any type.
        least: Smallest valid number; None: there is none.

    Raises:
        UsageError: The value is no whole number, or less than `least`.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"invalid {name} {shown(value)}", "a whole number") from None
    if least is not None and number < least:
        raise UsageError(f"{name} {number} is out of range", f"at least {least}")
    return number


def check_names(name: str, value: Any) -> None:
    """Refuse one text where several are expected: Python would take its letters.

    Args:
        name: Name of the argument.
        value: The value that was given, of any type.

    Raises:
        UsageError: The value is a text.
    """
    if isinstance(value, str | bytes):
        raise UsageError(f"invalid {name} {shown(value)}: one text", f"{name}=({value!r},)")


def shown(value: object) -> str:
    """A value in a message: its `repr` in one line, shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def explain_unknown(
    hint: Callable[[str, str], str],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for methods: an unknown keyword is an error that says what to write instead.

    Type checkers and editors still see the arguments of the decorated function.

    Args:
        hint: Called with the name of the class (or of the class and its method) and that of the
            unknown argument; returns what to write, "" if there is nothing to say.
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        owner = method.__qualname__.removesuffix(".__init__")
        known = [name for name in inspect.signature(method).parameters if name != "self"]

        @functools.wraps(method)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = [name for name in kwargs if name not in known]
            if unknown:
                raise _unknown(owner, unknown, known, hint)
            return method(*args, **kwargs)

        return checked

    return decorate


def _unknown(
    owner: str, unknown: Sequence[str], known: Collection[str], hint: Callable[[str, str], str]
) -> UsageError:
    hints = {name: hint(owner, name) or _similar(name, known) for name in unknown}
    names = "argument" if len(unknown) == 1 else "arguments"
    text = "; ".join(one if len(unknown) == 1 else f"{name}: {one}" for name, one in hints.items())
    return UsageError(f"{owner} has no {names} {', '.join(unknown)}", text)


def _similar(name: str, known: Collection[str]) -> str:
    close = closest(name, known, 0.6)
    return "known: " + ", ".join(known) if close is None else f"did you mean {close}=…?"
