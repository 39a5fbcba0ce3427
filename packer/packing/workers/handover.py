"""Pass large results from a worker process to its parent in shared memory.

Through a pipe a payload is copied five times: into the pickle, into the pipe, out of the pipe,
into a buffer, out of the pickle. With shared memory the worker copies it once, and the parent uses
it in place; only the rest of the result, without the payloads, is pickled (PEP 574).

The memory is anonymous and inherited by fork: the system frees it when the processes have ended,
whatever ended them.
"""

from __future__ import annotations

import contextlib
import mmap
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

#: Bytes of one place: a batch of 128 pictures of 256 KB. Unused pages cost no memory, and a larger
#: result goes through the pipe.
PLACE_BYTES = 1 << 25


@dataclass(frozen=True)
class Handed:
    """A result in transit.

    Attributes:
        pickled: The pickled result, without its payloads if `sizes` is not empty.
        place: Number of the reserved place in shared memory, or None.
        sizes: Bytes of each payload; the payloads lie end to end in the place.
    """

    pickled: bytes
    place: int | None
    sizes: tuple[int, ...] = ()


class Places:
    """Shared memory, divided into places; used by the parent process and its workers.

    Args:
        count: Number of places: the largest number of results in transit at once.

    Raises:
        OSError, ValueError: The system refuses that much address space.
    """

    def __init__(self, count: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, count * PLACE_BYTES))
        self._free = list(range(count))

    def take(self) -> int | None:
        """Reserve a place for a future result, in the parent; None if all are in use."""
        return self._free.pop() if self._free else None

    def give_back(self, place: int | None) -> None:
        """Free a place whose content is no longer used, in the parent."""
        if place is not None:
            self._free.append(place)

    def hand_over(self, result: object, place: int | None) -> Handed:
        """Put a result into its place, in a worker."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(result, 5, buffer_callback=buffers.append)
        parts = [buffer.raw() for buffer in buffers]
        sizes = tuple(len(part) for part in parts)
        if place is None or not 0 < sum(sizes) <= PLACE_BYTES:
            return Handed(pickle.dumps(result, 5), place)
        at = place * PLACE_BYTES
        for part, size in zip(parts, sizes, strict=True):
            self._memory[at : at + size] = part
            at += size
        return Handed(pickled, place, sizes)

    def receive(self, handed: Handed) -> Any:
        """Rebuild the result, in the parent. Its payloads are read-only views of the place."""
        buffers, at = [], (handed.place or 0) * PLACE_BYTES
        for size in handed.sizes:
            buffers.append(self._memory[at : at + size].toreadonly())
            at += size
        return pickle.loads(handed.pickled, buffers=buffers)  # noqa: S301 - our own worker's


def make_places(count: int) -> Places | None:
    """Make shared memory for `count` results.

    None if the system refuses it: `ulimit -v`, or strict accounting of address space.
    """
    with contextlib.suppress(OSError, ValueError):
        return Places(count)
    return None


def share(places: Places) -> None:
    """Keep the inherited memory, in a new worker."""
    global _places  # noqa: PLW0603 - a task cannot carry it: it would be pickled
    _places = places


def call(function: Callable[[T], object], task: T, place: int | None) -> Handed:
    """Run a function and hand over its result, in a worker."""
    return _places.hand_over(function(task), place)


_places: Places
