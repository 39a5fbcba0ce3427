"""Signals that wait until it is safe to stop.

Python runs the handler of a signal between any two instructions of the main thread. An exception
raised there, inside the locks of a process pool or before a file has its final name, can cause a
deadlock or leave work half done. While a `Deferral` is entered, SIGINT and SIGTERM are only
recorded; `check` passes them to the previous handler. A second signal ends the process at once.

A signal that is ignored when the process starts stays ignored: by `nohup`, by `trap '' TERM`, or in
a background job of a script, for which shells ignore SIGINT.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from packer.errors import INTERRUPTS


def heeded_signals() -> tuple[signal.Signals, ...]:
    """Return the `INTERRUPTS` that are neither ignored nor handled by code outside of Python."""
    return tuple(
        number for number in INTERRUPTS if signal.getsignal(number) not in (signal.SIG_IGN, None)
    )


class Deferral:
    """A context manager; it does nothing outside the main thread, which receives no signals."""

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
        """Deliver a recorded signal to the previous handler, which usually raises an exception."""
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
