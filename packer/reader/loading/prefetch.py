"""Mini-batches in order, a few ahead of the training loop."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from packer.errors import UsageError
from packer.reader.batches.making import Wanted
from packer.reader.images.stored import IMAGE
from packer.reader.loading.device import Device, Sent
from packer.reader.loading.sheets import Sheet


class Result(Protocol):
    """A mini-batch that was asked for."""

    def result(self) -> dict[str, Any]:
        """Its columns, once they are there; of pictures in a sheet, their number."""

    def done(self) -> bool:
        """Whether they are there, or an error is."""

    def exception(self) -> BaseException | None:
        """The error, once it is done."""


class Source(Protocol):
    """Who makes mini-batches: `packer.reader.loading.pipeline` or `remote`."""

    def submit(self, wanted: Wanted, sheet: Any) -> Result:
        """Ask for one."""

    def close(self) -> None:
        """No more is wanted."""


class Sheets(Protocol):
    """Who has memory for pictures."""

    def take(self) -> Sheet:
        """A sheet that nobody uses."""


class _Coming:
    """A mini-batch that was asked for, and then its columns."""

    def __init__(self, result: Result, sheet: Sheet | None) -> None:
        self._result: Result | None = result
        self._sheet = sheet
        self._sent = Sent({})

    def ready(self) -> bool:
        """Whether there is nothing to wait for; an error waits for its turn."""
        result = self._result
        return result is None or (result.done() and result.exception() is None)

    def collect(self, device: Device) -> None:
        """Wait for it, and start its way to the device."""
        if self._result is None:
            return
        try:
            columns = self._result.result()
        finally:  # an error's traceback has this frame; with the result it would have itself
            self._result = None
        if self._sheet is not None:
            columns[IMAGE] = self._sheet.tensor(columns[IMAGE])
        self._sent = device.send(columns)
        self._sheet = None

    def take(self) -> Sent:
        """Its columns; nothing of it is held here any more, so that the loop alone holds it."""
        sent, self._sent = self._sent, Sent({})
        return sent


class Prefetch:
    """An iterator over the columns of some mini-batches, in order. The first ones are asked for at
    once, and each one taken makes room for another.

    Args:
        source: Makes them; closed at the end.
        sheets: Where pictures go; None: each into memory of its own.
        wanted: Which ones.
        ahead: How many are under way or ready while the loop has one.
        device: Where they go.
    """

    def __init__(
        self,
        source: Source,
        sheets: Sheets | None,
        wanted: Iterable[Wanted],
        ahead: int,
        device: Device,
    ) -> None:
        self._pid = os.getpid()
        self._source = source
        self._sheets = sheets
        self._wanted = iter(wanted)
        self._device = device
        self._coming: deque[_Coming] = deque()
        self._closed = False
        try:
            self._ask(ahead)
        except BaseException:
            # Interrupted while a thread starts, Python does not know of it and would not end it.
            self.close()
            raise

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next one.

        Raises:
            UsageError: Another process began this loop.
            Exception: Whatever went wrong where it was made.
        """
        if self._pid != os.getpid():
            raise UsageError(
                "this loop was begun before a fork, and its threads are in the other process",
                "begin one with iter(loader) here",
            )
        if not self._coming:
            self.close()
            raise StopIteration
        try:
            first = self._coming.popleft()
            first.collect(self._device)
            self._ask(1)
            # What is ready already starts its way to the device while the loop has this one.
            for coming in itertools.takewhile(_Coming.ready, self._coming):
                coming.collect(self._device)
            return self._device.receive(first.take())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """No more is wanted."""
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            self._coming.clear()
            self._source.close()

    def __del__(self) -> None:
        # Not begun, where an argument was wrong.
        if hasattr(self, "_coming"):
            self.close()

    def _ask(self, count: int) -> None:
        for wanted in itertools.islice(self._wanted, count):
            sheet = None if self._sheets is None else self._sheets.take()
            self._coming.append(_Coming(self._source.submit(wanted, sheet), sheet))
