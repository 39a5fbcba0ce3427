"""Attributes that can be read but not assigned.

If Python accepted an assignment that no code reads, training would go on with the old value and no
error. So each argument of a public class is an attribute whose assignment either takes effect or
raises an error with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, overload

T = TypeVar("T")


class ReadOnly(Generic[T]):
    """A property without a setter; the error of an assignment says what to do instead.

    Args:
        get: Returns the value.
        instead: What to do instead of the assignment, in one line; "": create another object with
            this argument.
    """

    def __init__(self, get: Callable[[Any], T], instead: str = "") -> None:
        self._get = get
        self._instead = instead
        self._name = ""
        self.__doc__ = get.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> ReadOnly[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | ReadOnly[T]:
        return self if instance is None else self._get(instance)

    def __set__(self, instance: object, value: Any) -> NoReturn:
        owner = type(instance).__name__
        instead = self._instead or f"make another {owner} with {self._name}=…"
        raise AttributeError(f"{owner}.{self._name} cannot be assigned: {instead}")


def read_only(instead: str = "") -> Callable[[Callable[[Any], T]], ReadOnly[T]]:
    """Return a decorator that turns a method into a `ReadOnly` attribute."""

    def make(get: Callable[[Any], T]) -> ReadOnly[T]:
        return ReadOnly(get, instead)

    return make
