"""How a worker process hands over a large result: in memory that it shares with its parent.

Through a pipe a payload is copied five times: into the pickle, into the pipe, out of it, into a
buffer, out of the pickle. Here the worker copies it once, and the parent uses it where it lies;
only what remains of the result, without the payloads, is pickled (PEP 574).

The memory is anonymous and inherited by fork: when the processes are gone it is gone, however they
ended.
"""

from __future__ import annotations

import contextlib
import mmap
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

#: Bytes of one place: a batch of 128 pictures of 256 KB. What no result uses costs no memory, and
#: a larger result goes through the pipe.
PLACE_BYTES = 1 << 25


@dataclass(frozen=True)
class Handed:
    """A result on its way.

    Attributes:
        pickled: The result, without its payloads if there are `sizes`.
        place: Number of the place in the shared memory that was kept for it.
        sizes: Bytes of each payload; they lie there end to end.
    """

    pickled: bytes
    place: int | None
    sizes: tuple[int, ...] = ()


class Places:
    """The shared memory, as its parent process and its workers have it.

    Args:
        count: Most results under way at once.

    Raises:
        OSError, ValueError: The system has no room for so much address space.
    """

    def __init__(self, count: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, count * PLACE_BYTES))
        self._free = list(range(count))

    def take(self) -> int | None:
        """A free place for a result to come, in the parent."""
        return self._free.pop() if self._free else None

    def give_back(self, place: int | None) -> None:
        """Nobody uses what lies there any more, in the parent."""
        if place is not None:
            self._free.append(place)

    def hand_over(self, result: object, place: int | None) -> Handed:
        """Put a result there, in a worker."""
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
        """The result, in the parent. Its payloads are read-only views of the memory."""
        buffers, at = [], (handed.place or 0) * PLACE_BYTES
        for size in handed.sizes:
            buffers.append(self._memory[at : at + size].toreadonly())
            at += size
        return pickle.loads(handed.pickled, buffers=buffers)  # noqa: S301 - our own worker's


def make_places(count: int) -> Places | None:
    """Shared memory for so many results, or None where the system refuses: `ulimit -v`, or strict
    accounting of address space.
    """
    with contextlib.suppress(OSError, ValueError):
        return Places(count)
    return None


def share(places: Places) -> None:
    """In a new worker: keep what it inherited."""
    global _places  # noqa: PLW0603 - a task cannot carry it: it would be pickled
    _places = places


def call(function: Callable[[T], object], task: T, place: int | None) -> Handed:
    """In a worker: run a function and hand its result over."""
    return _places.hand_over(function(task), place)


_places: Places
