"""The batches of the window that a stream is in, held in memory."""

from __future__ import annotations

from collections.abc import Iterator

from packer.reader.order import EpochOrder, Piece
from packer.reader.payloads import Payloads, Span


class WindowBuffer:
    """Reads an epoch window by window: each on-disk batch that is needed with one positional read,
    when it is first needed.

    The spans of one window are let go when the next one is entered. Its samples are shuffled
    through all of it, so its batches run out within its last few samples: letting go of each on
    its own would keep no less in memory.

    Args:
        payloads: Where to read.
        order: The epoch.
    """

    def __init__(self, payloads: Payloads, order: EpochOrder) -> None:
        self._payloads = payloads
        self._order = order
        self._window: int | None = None
        self._spans: dict[int, Span] = {}

    def read(self, piece: Piece, field: str) -> Iterator[memoryview | None]:
        """One field of a piece's samples, in order; None where a sample lacks it.

        Raises:
            DamageError: Not what the index says.
            PackerError: The file system failed.
        """
        if piece.window is None:
            yield from self._payloads.read(piece.samples, field)
            return
        self._enter(piece.window)
        batches = self._payloads.pack.batch_of(piece.samples)
        for sample, batch in zip(piece.samples.tolist(), batches.tolist(), strict=True):
            span = self._spans.get(batch)
            if span is None:
                span = self._spans[batch] = self._payloads.span(batch)
            yield self._payloads.cut(span, sample, field)

    def _enter(self, window: int) -> None:
        if window == self._window:
            return
        self._spans.clear()
        # The kernel reads the next window while this one is used, and several batches at a time.
        expected = self._window is not None and window == self._window + 1
        first = window + 1 if expected else window
        for ahead in range(first, min(window + 2, self._order.windows)):
            self._payloads.advise(self._order.batches(ahead))
        self._window = window
