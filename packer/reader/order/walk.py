"""One process's way through an epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Walk:
    """One process's way through an epoch.

    Attributes:
        epoch: Number of the epoch.
        start: Position in the epoch's sequence from which steps are counted.
        step: Next mini-batch of this process.
        workers: Number of processes that take the mini-batches in turn.
        stride: Samples of a global mini-batch.
        ended: Whether its last mini-batch was returned and the end was reached.
    """

    epoch: int
    start: int
    step: int
    workers: int
    stride: int = 1
    ended: bool = False
