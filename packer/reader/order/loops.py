"""Notes by which all workers of one DataLoader loop read the same epoch.

The first worker that begins takes an epoch and writes a note into shared memory, where the others
find it. A note is identified by a number that all workers of the loop can compute, and that no
worker of another loop has.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.queues import Queue
from typing import Any

import numpy as np

from packer.reader.order.hashing import combine
from packer.reader.order.statedict import Place
from packer.types import Array

#: Largest number of loops at one time that have begun in some of their workers and not yet in all.
NOTES = 64
NOTE = np.dtype([("loop", "i8"), ("epoch", "i8"), ("start", "i8"), ("missing", "i8")])


def loop_of_worker(base_seed: int, walks: int) -> int:
    """Return the number, not 0, of this worker's loop: equal in all its workers, and different from
    that of any other loop.

    Args:
        base_seed: Base seed of the DataLoader's iterator. It does not suffice: scripts that set
            torch's seed before each epoch give all iterators the same.
        walks: Number of loops that this worker has taken part in: persistent workers take part in
            several.
    """
    return combine(base_seed, _results_pipe(), walks) >> 1 | 1


def find(notes: Array, loop: int) -> Place | None:
    """Return where the other workers of a loop have begun; None if this worker is the first.

    Args:
        notes: NOTES records of dtype NOTE, which the workers share. The caller holds the lock.
        loop: Number that `loop_of_worker` has returned.
    """
    found = np.flatnonzero((notes["loop"] == loop) & (notes["missing"] > 0))
    if not found.size:
        return None
    notes["missing"][found[0]] -= 1
    return Place(int(notes["epoch"][found[0]]), int(notes["start"][found[0]]))


def add(notes: Array, loop: int, place: Place, missing: int) -> None:
    """Write a note for the other workers of a loop, in place of the oldest note.

    Args:
        notes: As for `find`.
        loop: Number that `loop_of_worker` has returned.
        place: Where the loop begins.
        missing: Number of the other workers.
    """
    notes[1:] = notes[:-1].copy()
    notes[0] = (loop, place.epoch, place.position, missing)


def _results_pipe() -> int:
    """Return the inode number of the pipe through which all workers of a DataLoader's iterator send
    their mini-batches: no two pipes on a machine have the same one. 0 if it is not found.
    """
    arguments: Any = getattr(multiprocessing.current_process(), "_args", ())
    queues = [argument for argument in arguments if isinstance(argument, Queue)]
    try:
        # The first queue brings this worker its indices, the second one takes all workers' results.
        reader: Any = queues[1]
        return os.fstat(reader._reader.fileno()).st_ino
    except (IndexError, AttributeError, OSError):
        return 0
