"""Mini-batches made by threads of this process.

One thread reads, in order; as soon as a mini-batch is read, its pictures are dealt to the decode
threads, a run of them at a time: a task for each would cost more Python than it hands out. Decoders
and OpenCV release the GIL.

No thread ever waits for a place in a queue: what is under way is what was asked for, so nothing has
to be woken up when a loop is left, an error ends it, or the interpreter shuts down.
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

#: Fewest pictures that a thread is given at a time: handing work over takes about 30 µs, a tenth of
#: decoding one small picture.
_RUN = 4


class Surface(Protocol):
    """Where a mini-batch's pictures go.

    Attributes:
        array: N×H×W×3 or N×3×H×W.
    """

    @property
    def array(self) -> Array: ...


class Pipeline:
    """Makes the mini-batches that are asked for, several at once.

    Args:
        maker: Makes one, step by step.
        threads: That decode.
    """

    def __init__(self, maker: Maker, threads: int) -> None:
        self._maker = maker
        self._threads = threads
        self._stopped = False
        self._own: set[int] = set()
        self._results: set[Future[Made]] = set()  # those that are not there yet
        # No method of ours: a pool keeps what it is given, and all that was read would stay with it
        # until Python looks for cycles.
        enlist = functools.partial(_enlist, self._own)
        self._reader = ThreadPoolExecutor(1, "packer-read", enlist)
        self._decoders = ThreadPoolExecutor(threads, "packer-decode", enlist)

    def submit(self, wanted: Wanted, sheet: Surface | None) -> Future[Made]:
        """Ask for a mini-batch.

        Args:
            wanted: Which one. Cheap if steps ascend.
            sheet: Where to write its pictures; None: each into memory of its own.

        Returns:
            Its columns; see `packer.reader.batches.making.Maker.finished`. Cancelled when the
            pipeline is closed before it is done.
        """
        job = _Job()
        result = job.result
        self._results.add(result)
        result.add_done_callback(self._results.discard)
        array = None if sheet is None else sheet.array
        self._reader.submit(self._read, job, wanted, array)
        return result

    def close(self) -> None:
        """End all threads; what they have not done yet is never done."""
        self._stopped = True
        # A loop that was forgotten may be collected in one of our own threads.
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
        except BaseException as error:  # the training loop's to see, not this thread's
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
        """Decode what can be decoded several at a time; the others."""
        size = self._maker.at_once or len(run)
        for start in range(0, len(run), size):
            if self._stopped or job.error is not None:
                break
            yield from self._maker.decode_several(draft, run[start : start + size])

    def _finish(self, job: _Job, draft: Draft) -> None:
        """When no thread writes to the sheet any more."""
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
        """So many runs are to be decoded."""
        self._left = runs

    def last(self) -> bool:
        """One run has ended; whether it was the last."""
        with self._lock:
            self._left -= 1
            return self._left == 0

    def done(self, made: Made) -> None:
        self._end().set_result(made)

    def failed(self, error: BaseException) -> None:
        self._end().set_exception(as_error(error, "making a mini-batch"))

    def _end(self) -> Future[Made]:
        """The result. Nothing is held here any more: an error's traceback has this object, and
        would have itself, with all that was read.
        """
        result = self.result
        self.error = None
        del self.result
        return result
