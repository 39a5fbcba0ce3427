"""Files of a batch, read while earlier ones are decoded where that pays.

On a network file system a small file costs three round trips (open, read, close): with 1 ms each,
more than decoding it; a cold disk is not much better. There several reads are under way at once, in
threads. From the page cache a file takes 30 µs, all of it work, and threads would only cost: so the
waiting is measured, a few files at the start of a batch.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from packer.errors import ImageError
from packer.sources import Source

#: Reads under way at once in a process. At 1 ms a round trip a small file takes 3 to 4 ms: sixteen
#: keep up with a core that decodes 2,000 pictures a second, also where a batch ends.
THREADS = 16
#: Files that one thread reads in a row, as handing work to a thread costs about 50 µs; the first
#: ones of a batch in smaller groups, as somebody waits for them.
GROUP, FIRST_GROUP = 8, 1
#: Files read without threads to see how long they are waited for.
PROBE = 4
#: Seconds of waiting for a file from which on threads pay: a tenth of what decoding it takes.
SLOW_SECONDS = 1e-4
#: Batches after which waiting is measured again once it was found to be long.
PROBE_EVERY = 32

#: Batches until waiting is measured again.
_batches_to_probe = 0

#: A file's bytes, or why it cannot be read.
Read: TypeAlias = "bytes | ImageError | MemoryError"


def read_ahead(source: Source, paths: Sequence[bytes]) -> Generator[Read]:
    """The files in order, read when they are asked for or, where that takes long, before.

    Close it where it may be left half-way: its threads end with it.
    """
    global _batches_to_probe  # noqa: PLW0603 - what a process remembers from batch to batch
    left = _batches_to_probe  # once, as the threads of one process share it
    slow = left > 0
    if slow:
        _batches_to_probe = left - 1
    else:
        first, paths = paths[:PROBE], paths[PROBE:]
        waits = []
        for path in first:
            wall, work = time.perf_counter(), time.thread_time()
            data = _read(source, path)
            waits.append(time.perf_counter() - wall - (time.thread_time() - work))
            yield data
        # The median, as any one may have been interrupted by another process.
        slow = bool(waits) and statistics.median(waits) > SLOW_SECONDS
        _batches_to_probe = PROBE_EVERY - 1 if slow else 0
    if slow:
        yield from _in_threads(source, paths)
    else:
        for path in paths:
            yield _read(source, path)


def _in_threads(source: Source, paths: Sequence[bytes]) -> Iterator[Read]:
    edge = min(len(paths), THREADS * FIRST_GROUP)
    groups = deque(paths[at : min(at + FIRST_GROUP, edge)] for at in range(0, edge, FIRST_GROUP))
    groups.extend(paths[at : at + GROUP] for at in range(edge, len(paths), GROUP))
    waiting: deque[Future[list[Read]]] = deque()
    refused = False
    # Threads of this batch alone: 2 ms for their start, but none outlives a conversion in somebody
    # else's process, where they would forbid a fork.
    with ThreadPoolExecutor(THREADS, "packer-ahead") as threads:
        try:
            while groups or waiting:
                while groups and len(waiting) < THREADS and not refused:
                    try:
                        waiting.append(threads.submit(_read_group, source, groups[0]))
                        groups.popleft()
                    except RuntimeError:  # at the limit of threads: the rest without them
                        refused = True
                if waiting:
                    yield from waiting.popleft().result()
                else:
                    yield from _read_group(source, groups.popleft())
        finally:  # left half-way: what has not begun need not begin
            threads.shutdown(cancel_futures=True)


def _read_group(source: Source, paths: Sequence[bytes]) -> list[Read]:
    return [_read(source, path) for path in paths]


def _read(source: Source, path: bytes) -> Read:
    try:
        return source.read(path)
    except (ImageError, MemoryError) as error:
        return error
