"""Mini-batches made by threads of this process.

One thread reads, in order. Once a mini-batch is read, its pictures are handed to the decode
threads, several at a time: handing over single pictures would take more Python than decoding them
saves. Decoders and OpenCV release the GIL.

No thread ever waits for space in a queue: only requested mini-batches are under way. So no thread
has to be woken up when a loop is left, an error ends it, or the interpreter shuts down.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from packer.errors import DamagedSample
from packer.raised import as_error
from packer.reader.batches.draft import Draft, Made
from packer.reader.batches.making import Maker
from packer.reader.batches.material import Wanted
from packer.types import Array

#: Smallest number of pictures that a thread is given at a time: handing work over takes about 30
#: µs, a tenth of the time for decoding one small picture.
_RUN = 4


class Surface(Protocol):
    """Memory for a mini-batch's pictures.

    Attributes:
        array: N×H×W×3 or N×3×H×W.
    """

    @property
    def array(self) -> Array: ...


class Pipeline:
    """Makes the requested mini-batches, several at once.

    Args:
        maker: Makes one mini-batch, step by step.
        threads: Number of decode threads.
    """

    def __init__(self, maker: Maker, threads: int) -> None:
        self._maker = maker
        self._threads = threads
        self._stopped = False
        self._own: set[int] = set()
        self._results: set[Future[Made]] = set()  # those that are not done yet
        # Not a method of this object: the pool keeps the function, and the reference cycle would
        # keep everything that was read until Python looks for cycles.
        enlist = functools.partial(_enlist, self._own)
        self._reader = ThreadPoolExecutor(1, "packer-read", enlist)
        self._decoders = ThreadPoolExecutor(threads, "packer-decode", enlist)

    def submit(self, wanted: Wanted, sheet: Surface | None) -> Future[Made]:
        """Request a mini-batch.

        Args:
            wanted: Which mini-batch. Fast if steps ascend.
            sheet: Memory for its pictures; None: the maker allocates memory for them.

        Returns:
            The mini-batch; cancelled if the pipeline is closed before it is done.
        """
        job = _Job()
        result = job.result
        self._results.add(result)
        result.add_done_callback(self._results.discard)
        array = None if sheet is None else sheet.array
        self._reader.submit(self._read, job, wanted, array)
        return result

    def close(self) -> None:
        """End all threads; mini-batches that are not done yet are cancelled."""
        self._stopped = True
        # A loop that was dropped may be garbage-collected in one of the pipeline's own threads.
        wait = threading.get_ident() not in self._own
        self._reader.shutdown(wait=wait, cancel_futures=True)
        self._decoders.shutdown(wait=wait, cancel_futures=True)
        for result in list(self._results):
            result.cancel()  # now that no thread writes for it any more

    def _read(self, job: _Job, wanted: Wanted, sheet: Array | None) -> None:
        try:
            draft = self._maker.read(wanted, sheet)
            count = draft.count
            size = max(_RUN, -(-count // self._threads))
            starts = range(0, count, size)
            job.begin(len(starts))
            for start in starts:
                run = range(start, min(start + size, count))
                self._decoders.submit(self._decode, job, draft, run)
            if not count:
                job.done(self._maker.finished(draft))
        except BaseException as error:  # raised in the training loop
            job.failed(error)

    def _decode(self, job: _Job, draft: Draft, run: range) -> None:
        try:
            for number in self._left(job, draft, run):
                if self._stopped or job.error is not None:
                    break
                self._maker.decode(draft, number)
        except BaseException as error:  # as above
            job.error = job.error or error
        if job.last():
            self._finish(job, draft)

    def _left(self, job: _Job, draft: Draft, run: range) -> Iterator[int]:
        """Decode pictures several at a time where that is possible; yield the others' numbers."""
        size = self._maker.at_once or len(run)
        for start in range(0, len(run), size):
            if self._stopped or job.error is not None:
                break
            yield from self._maker.decode_several(draft, run[start : start + size])

    def _finish(self, job: _Job, draft: Draft) -> None:
        """Collate the mini-batch, once no thread writes to the sheet any more."""
        try:
            if isinstance(job.error, DamagedSample):
                draft = self._maker.remade(draft, job.error)
            elif job.error is not None:
                raise job.error
            job.done(self._maker.finished(draft))
        except BaseException as error:  # as above
            job.failed(error)


def _enlist(own: set[int]) -> None:
    own.add(threading.get_ident())


class _Job:
    """A mini-batch under way."""

    def __init__(self) -> None:
        self.result: Future[Made] = Future()
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._left = 0

    def begin(self, runs: int) -> None:
        """Set the number of runs to decode."""
        self._left = runs

    def last(self) -> bool:
        """Count a run that has ended; return whether it was the last one."""
        with self._lock:
            self._left -= 1
            return self._left == 0

    def done(self, made: Made) -> None:
        self._end().set_result(made)

    def failed(self, error: BaseException) -> None:
        self._end().set_exception(as_error(error, "making a mini-batch"))

    def _end(self) -> Future[Made]:
        """Return the result, and drop it here: an error's traceback refers to this object, and
        would refer to itself through it, with everything that was read.
        """
        result = self.result
        self.error = None
        del self.result
        return result
