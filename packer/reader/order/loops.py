"""One loop of a DataLoader, as its worker processes see it: all of them must read the same epoch.

The first worker that begins takes an epoch and notes it in shared memory, and the others find it
there. For that, they need a number that they have in common with one another and not with the
workers of any other loop.
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

#: Loops that can have begun in some of their workers and not yet in all of them, at one time.
NOTES = 64
NOTE = np.dtype([("loop", "i8"), ("epoch", "i8"), ("start", "i8"), ("missing", "i8")])


def loop_of_worker(base_seed: int, walks: int) -> int:
    """A number, not 0, that all workers of this worker's loop have, and those of no other.

    Args:
        base_seed: Of the DataLoader's iterator. Scripts that set torch's seed before each epoch
            give all of them the same.
        walks: How many loops this worker has taken part in; persistent workers do in several.
    """
    return combine(base_seed, _results_pipe(), walks) >> 1 | 1


def find(notes: Array, loop: int) -> Place | None:
    """Where the other workers of a loop have begun; None if this is the first one.

    Args:
        notes: NOTES records of dtype NOTE, which the workers share. The caller excludes others.
        loop: What `loop_of_worker` says.
    """
    found = np.flatnonzero((notes["loop"] == loop) & (notes["missing"] > 0))
    if not found.size:
        return None
    notes["missing"][found[0]] -= 1
    return Place(int(notes["epoch"][found[0]]), int(notes["start"][found[0]]))


def note(notes: Array, loop: int, place: Place, missing: int) -> None:
    """Leave a note for the other workers of a loop, in place of the oldest.

    Args:
        notes: As for `find`.
        loop: What `loop_of_worker` says.
        place: Where the loop begins.
        missing: How many other workers there are.
    """
    notes[1:] = notes[:-1].copy()
    notes[0] = (loop, place.epoch, place.position, missing)


def _results_pipe() -> int:
    """The inode number of the pipe through which all workers of a DataLoader's iterator send their
    mini-batches: no two pipes on a machine have the same one. 0 where it cannot be known.
    """
    arguments: Any = getattr(multiprocessing.current_process(), "_args", ())
    queues = [argument for argument in arguments if isinstance(argument, Queue)]
    try:
        # The first one brings this worker its work, the second one takes the results of all.
        reader: Any = queues[1]
        return os.fstat(reader._reader.fileno()).st_ino
    except (IndexError, AttributeError, OSError):
        return 0
