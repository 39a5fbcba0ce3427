"""Answer the requests of `bench_read.py` in a reader's process: passes over a data set.

Imports the standard library alone, and numpy for a check: it runs in a peer's environment. A
reader's program calls `serve`; bench_read.py puts `scripts` on its PYTHONPATH.

Requests are lines of JSON on stdin, each answered by one on stdout:

    (none)                                         {"versions": {…}}
    {"ask": "check"}                               {"images": …, "labels": …, "mean": …, …}
    {"ask": "pass", "epochs": 3, "seconds": 8.0}   {"images": …, "seconds": …, "first": …}
    {"ask": "forget"}                              {}

The end of stdin ends it.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

#: From an epoch's number to its mini-batches: images N×3×H×W or N×H×W×3 uint8, and labels.
Epoch: TypeAlias = Callable[[int], Iterable[Sequence[Any]]]


def serve(
    epoch: Epoch, libraries: Sequence[str], forget: Callable[[], object] | None = None
) -> None:
    """Answer until stdin ends.

    Args:
        epoch: Opens the mini-batches of an epoch. The reader itself keeps workers and compiled code
            from one epoch to the next.
        libraries: Distributions whose versions are reported.
        forget: Closes mapped files, whose pages would stay in the page cache; for a reader that
            keeps files mapped from one epoch to the next.
    """
    numbers = itertools.count()
    answer_all(
        lambda: check(epoch(next(numbers))),
        lambda epochs, seconds: measure(epoch, numbers, epochs, seconds),
        libraries,
        forget,
    )


def answer_all(
    check: Callable[[], dict[str, Any]],
    measure: Callable[[int, float], dict[str, Any]],
    libraries: Sequence[str],
    forget: Callable[[], object] | None = None,
) -> None:
    """Answer as `serve`, by functions, without mini-batches."""
    # The prints of a library must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"versions": versions(libraries)})
    for line in sys.stdin:
        request = json.loads(line)
        if request["ask"] == "check":
            answer(check())
        elif request["ask"] == "forget":
            if forget:
                forget()
            answer({})
        else:
            answer(measure(request["epochs"], request["seconds"]))
    # Not sys.exit: a peer's worker threads must not keep the process.
    os._exit(0)


def versions(libraries: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and some distributions."""
    found = {name: importlib.metadata.version(name) for name in libraries}
    return {"python": platform.python_version(), **found}


def check(mini_batches: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Read and check one epoch; return its counts, and the seconds until its first mini-batch.

    `mean` is the mean of all values, `labels` the sum of all labels, which shows lost and repeated
    samples.
    """
    import numpy as np

    start, first = time.perf_counter(), None
    images = total = labels = 0
    shape: list[int] = []
    dtype = ""
    for mini_batch in mini_batches:
        first = first or time.perf_counter() - start
        pixels = np.asarray(mini_batch[0])
        images += len(pixels)
        total += int(pixels.sum(dtype=np.int64))
        labels += int(np.asarray(mini_batch[1]).sum())
        dtype, shape = str(pixels.dtype), sorted(pixels.shape[1:])
    values = images * (shape[0] * shape[1] * shape[2]) if shape else 1
    return {
        "images": images,
        "labels": labels,
        "mean": total / values,
        "shape": shape,
        "dtype": dtype,
        "first": first,
    }


def measure(epoch: Epoch, numbers: Iterator[int], epochs: int, seconds: float) -> dict[str, Any]:
    """Read whole epochs until their number or the time is reached.

    The clock starts with the first mini-batch, which counts in `seen` but not in `images`.
    `first`: seconds until then.
    """
    start = time.perf_counter()
    first = end = 0.0
    seen = apart = 0
    for _ in range(epochs):
        for mini_batch in epoch(next(numbers)):
            end = time.perf_counter()
            seen += len(mini_batch[0])
            if not first:
                first, apart = end, seen
        if end - first >= seconds:
            break
    return {
        "images": seen - apart,
        "seconds": end - first,
        "first": first - start,
        "seen": seen,
    }
