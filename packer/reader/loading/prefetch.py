"""Mini-batches in order, a few ahead of the training loop."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from packer.errors import UsageError
from packer.reader.batches.draft import Made
from packer.reader.batches.material import Wanted
from packer.reader.images.stored import IMAGE
from packer.reader.loading.device import Device, Sent
from packer.reader.loading.sheets import Sheet


class Pending(Protocol):
    """A mini-batch that was requested: the part of a Future that is used here."""

    def result(self) -> Made:
        """Wait for the mini-batch and return it; raise the error if making it failed."""

    def done(self) -> bool:
        """Whether the mini-batch, or an error, is there."""

    def exception(self) -> BaseException | None:
        """Return the error, once `done` is true; None if there is none."""


class Producer(Protocol):
    """Makes mini-batches: `packer.reader.loading.pipeline.Pipeline` in threads of this process,
    `packer.reader.loading.process.client.RemoteLoop` in another process.
    """

    def submit(self, wanted: Wanted, sheet: Any) -> Pending:
        """Request a mini-batch."""

    def close(self) -> None:
        """Stop: no more mini-batches are needed."""


class Sheets(Protocol):
    """Provides memory for pictures."""

    def take(self) -> Sheet:
        """Return a sheet that is not in use."""


class _Coming:
    """A mini-batch that was requested, and then its columns."""

    def __init__(self, result: Pending, sheet: Sheet | None) -> None:
        self._result: Pending | None = result
        self._sheet = sheet
        self._sent = Sent({})

    def ready(self) -> bool:
        """Return whether the mini-batch is there; an error is raised only in its turn."""
        result = self._result
        return result is None or (result.done() and result.exception() is None)

    def collect(self, device: Device) -> None:
        """Wait for the mini-batch, and start copying it to the device."""
        if self._result is None:
            return
        try:
            made = self._result.result()
        finally:  # an error's traceback refers to this frame, and so to the error
            self._result = None
        columns = made.columns
        if self._sheet is not None and made.in_sheet is not None:
            columns[IMAGE] = self._sheet.tensor(made.in_sheet)
        self._sent = device.send(columns)
        self._sheet = None

    def take(self) -> Sent:
        """Return the columns, and drop them here, so that the loop alone holds them."""
        sent, self._sent = self._sent, Sent({})
        return sent


class Prefetch:
    """An iterator over the columns of some mini-batches, in order. The first ones are requested at
    once, and another one each time that the loop takes one.

    Args:
        producer: Makes the mini-batches; closed at the end.
        sheets: Memory for pictures; None: the producer allocates memory for them.
        wanted: Which mini-batches.
        ahead: Number of mini-batches under way or ready while the loop has one.
        device: Where to send them.
    """

    def __init__(
        self,
        producer: Producer,
        sheets: Sheets | None,
        wanted: Iterable[Wanted],
        ahead: int,
        device: Device,
    ) -> None:
        self._pid = os.getpid()
        self._producer = producer
        self._sheets = sheets
        self._wanted = iter(wanted)
        self._device = device
        self._coming: deque[_Coming] = deque()
        self._closed = False
        try:
            self._request(ahead)
        except BaseException:
            # If Ctrl-C comes while a thread starts, Python has not registered it, and would not end
            # it.
            self.close()
            raise

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """Return the columns of the next mini-batch.

        Raises:
            UsageError: Another process began this loop.
            Exception: The error that was raised where the mini-batch was made.
        """
        if self._pid != os.getpid():
            raise UsageError(
                "this loop was begun before a fork, and its threads are in the other process",
                "begin another loop here, with iter(loader)",
            )
        if not self._coming:
            self.close()
            raise StopIteration
        try:
            first = self._coming.popleft()
            first.collect(self._device)
            self._request(1)
            # Start copying those that are ready to the device while the loop has this one.
            for coming in itertools.takewhile(_Coming.ready, self._coming):
                coming.collect(self._device)
            return self._device.receive(first.take())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop: no more mini-batches are needed."""
        if not self._closed and self._pid == os.getpid():
            self._closed = True
            self._coming.clear()
            self._producer.close()

    def __del__(self) -> None:
        # The attribute is missing if an argument was invalid.
        if hasattr(self, "_coming"):
            self.close()

    def _request(self, count: int) -> None:
        for wanted in itertools.islice(self._wanted, count):
            sheet = None if self._sheets is None else self._sheets.take()
            self._coming.append(_Coming(self._producer.submit(wanted, sheet), sheet))
