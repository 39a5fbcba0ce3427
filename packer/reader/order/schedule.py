"""How the epochs of a pack are cut into mini-batches. Pure: numbers in, numbers out.

A global mini-batch, that of all W ranks with B samples each, is W·B consecutive positions of the
epoch's sequence (`packer.reader.order.epoch`); sorted by lane, rank r takes the r-th B samples. So
at constant W·B the global mini-batches do not depend on the number of ranks, and the workers, which
take them in turn, do not change them either. An epoch can be resumed at any position, with
mini-batches of any size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from packer.reader.order.epoch import EpochOrder
from packer.reader.order.options import OrderOptions
from packer.types import Array


class Schedule:
    """The mini-batches of one rank, in all epochs of a pack.

    Args:
        counts: Number of samples of each on-disk batch.
        batch_bytes: Size of each on-disk batch in bytes.
        options: Options of the order.

    Attributes:
        options: The options, with a window that fits into memory.
        samples: Number of samples of an epoch.
        stride: Number of samples of a global mini-batch.
    """

    def __init__(self, counts: Array, batch_bytes: Array, options: OrderOptions) -> None:
        self.options = replace(options, window=fitting_window(batch_bytes, options))
        self.samples = int(counts.sum(dtype=np.int64))
        self.stride = options.batch_size * options.world_size
        self._counts = counts

    def __len__(self) -> int:
        """Number of mini-batches of an epoch on this rank."""
        return self.steps(0)

    def steps(self, start: int) -> int:
        """Return the number of mini-batches on this rank from a position of the epoch on."""
        options = self.options
        full, rest = divmod(max(0, self.samples - start), self.stride)
        if options.tail == "pad":
            return full + (rest > 0)
        if options.tail == "keep":
            return full + (rest > options.rank * options.batch_size)
        return full

    def global_steps(self, start: int, stride: int) -> int:
        """Return the number of global mini-batches of `stride` samples from a position of the epoch
        on: the steps of the rank that has most.
        """
        left = max(0, self.samples - start)
        return left // stride if self.options.tail == "drop" else -(-left // stride)

    def ended(self, start: int) -> bool:
        """Return whether no rank has a mini-batch from a position of the epoch on."""
        least = self.stride if self.options.tail == "drop" else 1
        return start + least > self.samples

    def span(self, step: int, start: int = 0) -> tuple[int, int]:
        """Return the first position of the global mini-batch `step`, and the one after its last.

        Args:
            step: Number of the mini-batch, from 0.
            start: Position in the epoch from which steps are counted.
        """
        first = start + step * self.stride
        stop = first + self.stride
        return first, (min(stop, self.samples) if self.options.tail == "keep" else stop)

    def mini_batch(self, order: EpochOrder, step: int, start: int = 0) -> Array:
        """Return int64, the samples of this rank's mini-batch; arguments as for `span`."""
        size = self.options.batch_size
        place = self.options.rank * size
        return order.at(order.mini_batch(*self.span(step, start))[place : place + size])

    def order(self, epoch: int) -> EpochOrder:
        """Return the order of one epoch."""
        return EpochOrder(self._counts, self.options, epoch)


def fitting_window(batch_bytes: Array, options: OrderOptions) -> int:
    """Return the largest window, in batches, up to `options.window`, of which two do not exceed
    `options.window_bytes`. If it must be reduced, it is a power of 2, as numbers of ranks usually
    are.

    It depends on the pack and the options alone, so it is equal on all ranks.
    """
    largest = max(int(batch_bytes.max(initial=1)), 1)
    fits = max(1, options.window_bytes // (2 * largest))
    return options.window if options.window <= fits else 1 << (fits.bit_length() - 1)
