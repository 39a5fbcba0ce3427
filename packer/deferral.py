"""Signals that wait until it is safe to stop.

Python runs a signal's handler between any two instructions of the main thread, and an exception
raised there, inside the locks of a process pool or between a file and its name, can hang or leave
things half done. While a `Deferral` is entered, SIGINT and SIGTERM are only remembered; `check`
hands them to whoever handled them before. A second signal ends the process at once.

A signal that the process was started to ignore stays ignored: `nohup`, `trap '' TERM`, or a job in
the background of a script, for which shells ignore SIGINT.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from packer.errors import INTERRUPTS


def heeded_signals() -> tuple[signal.Signals, ...]:
    """Those of `INTERRUPTS` that are neither ignored nor handled by code outside of Python."""
    return tuple(
        number for number in INTERRUPTS if signal.getsignal(number) not in (signal.SIG_IGN, None)
    )


class Deferral:
    """A context manager; does nothing outside the main thread, where signals do not arrive."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._waiting: int | None = None

    def __enter__(self) -> Deferral:
        if threading.current_thread() is threading.main_thread():
            for number in heeded_signals():
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._restore()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Let a signal that came meanwhile have its effect now, mostly an exception."""
        number, self._waiting = self._waiting, None
        if number is not None:
            self._restore()
            signal.raise_signal(number)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._waiting is not None:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._waiting = number

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
