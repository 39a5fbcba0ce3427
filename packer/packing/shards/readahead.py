"""Read the files of a batch ahead, while earlier ones are decoded, if that saves time.

On a network file system a small file costs three round trips (open, read, close): with 1 ms each,
more than decoding it; a disk without a warm page cache is similar. There, threads read several
files at once. From the page cache a file takes 30 µs of processor time, and threads would only add
to it. So a few files at the start of a batch measure the waiting time.
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

#: Concurrent reads in a process. At 1 ms a round trip a small file takes 3 to 4 ms: sixteen
#: keep up with a core that decodes 2,000 pictures a second, even at the end of a batch.
THREADS = 16
#: Files that one thread reads in sequence, as handing work to a thread takes about 50 µs; the first
#: files of a batch in smaller groups, as the decoder waits for them.
GROUP, FIRST_GROUP = 8, 1
#: Files read without threads to measure the waiting time.
PROBE = 4
#: Seconds of waiting for a file from which on threads save time: a tenth of its decoding time.
SLOW_SECONDS = 1e-4
#: Batches after which a long waiting time is measured again.
PROBE_EVERY = 32

#: Batches until waiting is measured again.
_batches_to_probe = 0

#: A file's bytes, or why it cannot be read.
Read: TypeAlias = "bytes | ImageError | MemoryError"


def read_ahead(source: Source, paths: Sequence[bytes]) -> Generator[Read]:
    """Yield the files in order, read on request or, if reading takes long, ahead.

    Close the generator if it may not be exhausted: closing ends its threads.
    """
    global _batches_to_probe  # noqa: PLW0603 - state of the process across batches
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
    # The threads end with the batch (starting them takes 2 ms): none may outlive a conversion in
    # a caller's process, which could then not fork safely.
    with ThreadPoolExecutor(THREADS, "packer-ahead") as threads:
        try:
            while groups or waiting:
                while groups and len(waiting) < THREADS and not refused:
                    try:
                        waiting.append(threads.submit(_read_group, source, groups[0]))
                        groups.popleft()
                    except RuntimeError:  # at the limit of threads: read the rest without them
                        refused = True
                if waiting:
                    yield from waiting.popleft().result()
                else:
                    yield from _read_group(source, groups.popleft())
        finally:  # closed early: cancel reads that have not started
            threads.shutdown(cancel_futures=True)


def _read_group(source: Source, paths: Sequence[bytes]) -> list[Read]:
    return [_read(source, path) for path in paths]


def _read(source: Source, path: bytes) -> Read:
    try:
        return source.read(path)
    except (ImageError, MemoryError) as error:
        return error
