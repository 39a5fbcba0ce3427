"""Errors that a user's code raises, on their way to the loop that called it.

Python gives some exceptions a meaning: StopIteration ends a loop, GeneratorExit a generator,
CancelledError a task. Where one of them comes out of a callback by mistake (`next()` on something
exhausted), it would end the caller's loop without a word. So, as PEP 479 does for generators, it
becomes a RuntimeError whose cause it is.
"""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError
from types import TracebackType

from packer.errors import PackerError

_SIGNALS = (StopIteration, StopAsyncIteration, GeneratorExit, CancelledError)


def as_error(error: BaseException, where: str) -> BaseException:
    """The error to raise instead of one that may have a meaning to Python.

    Args:
        error: What user's code raised.
        where: What was called, and for what, in a few words.

    Returns:
        The same error, or a RuntimeError whose cause it is.
    """
    return runtime_error(error, where) if isinstance(error, _signals()) else error


def runtime_error(error: BaseException, where: str) -> RuntimeError:
    """A RuntimeError whose cause is `error`."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    instead = RuntimeError(f"{where} raised {said}")
    instead.__cause__ = error
    return instead


def named(error: BaseException, what: str, where: str) -> BaseException:
    """An error with a note that says where it was; its type stays, see `as_error` apart.

    Args:
        error: What user's code raised.
        what: What was called.
        where: For what.
    """
    instead = as_error(error, f"{where}: {what}")
    if instead is error and isinstance(error, Exception):
        annotate(error, f"in {where}")
    return instead


def annotate(error: BaseException, text: str) -> None:
    """Add a line to an error; its type stays."""
    if sys.version_info >= (3, 11):
        error.add_note(text)
    elif error.__cause__ is None:
        error.__cause__ = PackerError(text)


class Contained:
    """A context manager: what leaves it is an error to everybody, see `as_error`.

    Args:
        where: As there.
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
    # Whoever raises asyncio's has imported it; importing it here would cost every start of packer.
    asyncio = sys.modules.get("asyncio.exceptions")
    return _SIGNALS if asyncio is None else (*_SIGNALS, asyncio.CancelledError)
