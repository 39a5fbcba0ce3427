"""Errors that users' callbacks raise.

Some exceptions control Python: StopIteration ends a loop, GeneratorExit a generator, CancelledError
a task. If a callback raises one by mistake (`next()` on an exhausted iterator), the caller's loop
would end without an error. As PEP 479 does for generators, such an exception becomes the cause of a
RuntimeError.
"""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError
from types import TracebackType

from packer.errors import PackerError

_SIGNALS = (StopIteration, StopAsyncIteration, GeneratorExit, CancelledError)


def as_error(error: BaseException, where: str) -> BaseException:
    """Return an error that does not control Python.

    Args:
        error: The error that a callback raised.
        where: What was called, and for which sample or purpose, in a few words.

    Returns:
        The same error, or a RuntimeError with the error as its cause.
    """
    return runtime_error(error, where) if isinstance(error, _signals()) else error


def runtime_error(error: BaseException, where: str) -> RuntimeError:
    """Return a RuntimeError with `error` as its cause."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    instead = RuntimeError(f"{where} raised {said}")
    instead.__cause__ = error
    return instead


def named(error: BaseException, what: str, where: str) -> BaseException:
    """Return the error with a note on where it was raised. Its type stays, except as in `as_error`.

    Args:
        error: The error that a callback raised.
        what: What was called.
        where: The sample or purpose that it was called for.
    """
    instead = as_error(error, f"{where}: {what}")
    if instead is error and isinstance(error, Exception):
        annotate(error, f"in {where}")
    return instead


def annotate(error: BaseException, text: str) -> None:
    """Add a line to an error without changing its type."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    elif error.__cause__ is None:
        error.__cause__ = PackerError(text)


class Contained:
    """A context manager that applies `as_error` to exceptions that leave it.

    Args:
        where: See `as_error`.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, _signals()):
            raise as_error(error, self._where)


def _signals() -> tuple[type[BaseException], ...]:
    # Not imported here, which would slow down every start: code that raises it has imported it.
    asyncio = sys.modules.get("asyncio.exceptions")
    return _SIGNALS if asyncio is None else (*_SIGNALS, asyncio.CancelledError)
