"""Measure the upper limit of all readers for `bench_read.py`: the work alone, on bytes in memory.

    python -m bench.read_limit decode|pixels|packer|copy --data DIR --task TASK --workers N

    decode   simplejpeg decodes every picture, whole
    pixels   the same, then the crop, the resize by OpenCV and the flip into a mini-batch's memory
    packer   the code of `packer.reader` for a payload, into a mini-batch's memory
    copy     raw pixels: as many bytes as the crops have, copied without a crop

The bytes are in memory that the processes share, one process for each worker; a free process takes
the next pictures. The memory of a mini-batch is reused. Nothing is read, checked or sent.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import simplejpeg

from bench.read_serve import answer_all
from bench.read_work import BATCH, CROP, LIBRARIES, TASKS, pack_of, transforms
from packer.reader import PackedDataset
from packer.reader.images.steps import Crop, Flip
from packer.reader.order.hashing import Draws, combine
from packer.reader.transforms import draw_steps

#: Pictures that a process takes at a time: few, so that all end together.
TAKE = 8
#: Seconds that a process waits for the others to be ready; forking takes milliseconds.
READY_SECONDS = 60.0
#: Does some pictures' work: their numbers, and N×H×W×3 uint8 for the results.
Work: TypeAlias = Callable[[Sequence[int], Any], Any]


@dataclass(frozen=True)
class Pass:
    """State that the processes share; they inherit it by fork.

    Attributes:
        work: The work to do.
        count: Number of pictures in an epoch.
        most: Number of pictures in all epochs.
        seconds: Time after which they stop.
        taken: Number of pictures taken so far.
        ready: Barrier at which they start together.
        look: Whether to add up the values of the results.
    """

    work: Work
    count: int
    most: int
    seconds: float
    taken: Synchronized[int]
    ready: Barrier
    look: bool


def main() -> None:
    """Load the pictures and answer requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=sorted(WORKS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    pack = pack_of(options.data, options.task)
    payloads = load(pack)
    work = WORKS[options.work](pack, options.task, payloads)

    def check() -> dict[str, Any]:
        found = run(work, len(payloads), options.workers, look=True)
        mean = found["total"] / (len(payloads) * CROP * CROP * 3)
        crops = {} if options.work in ("decode", "copy") else {"mean": mean}
        return {"images": found["images"], "first": 0.0, **crops}

    def measure(epochs: int, seconds: float) -> dict[str, Any]:
        return run(work, len(payloads), options.workers, epochs, seconds)

    answer_all(check, measure, LIBRARIES)


def load(pack: Path) -> list[memoryview]:
    """Return all stored pictures, in one shared memory.

    Separate objects would be copied into every process: it writes their reference counts.
    """
    dataset = PackedDataset(pack, decode="bytes")
    stored = [dataset[number][0] for number in range(len(dataset))]
    memory = memoryview(mmap.mmap(-1, sum(map(len, stored))))
    payloads, end = [], 0
    for payload in stored:
        start, end = end, end + len(payload)
        memory[start:end] = payload
        payloads.append(memory[start:end].toreadonly())
    return payloads


def whole(pack: Path, payloads: list[memoryview]) -> Callable[[int], Any]:
    """Return a function that decodes a picture, always into the same memory."""
    index = PackedDataset(pack, decode="bytes").pack.index
    buffer = np.empty(int((index["height"].astype(np.int64) * index["width"] * 3).max()), np.uint8)
    return lambda number: simplejpeg.decode_jpeg(payloads[number], "RGB", buffer=buffer)


def decode_work(pack: Path, task: str, payloads: list[memoryview]) -> Work:
    """Decode whole, and no more."""
    decode = whole(pack, payloads)

    def work(numbers: Sequence[int], outs: Any) -> None:
        for number in numbers:
            decode(number)

    return work


def pixels_work(pack: Path, task: str, payloads: list[memoryview]) -> Work:
    """Decode whole, crop, resize, flip; the crops are drawn beforehand."""
    index = PackedDataset(pack, decode="bytes").pack.index
    shapes = list(zip(index["height"].tolist(), index["width"].tolist(), strict=True))
    drawn = [
        draw_steps(transforms(task), shape, Draws(combine(number)))
        for number, shape in enumerate(shapes)
    ]
    crops = [next(step for step in steps if isinstance(step, Crop)) for steps in drawn]
    flips = [any(isinstance(step, Flip) for step in steps) for steps in drawn]
    decode = whole(pack, payloads)

    def work(numbers: Sequence[int], outs: Any) -> None:
        for number, out in zip(numbers, outs, strict=True):
            one(number, out)

    def one(number: int, out: Any) -> None:
        crop = crops[number]
        pixels = decode(number)
        pixels = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
        # As in packer, see `packer.imaging.native.fastresize`.
        small = (min(CROP, crop.width), min(CROP, crop.height))
        if small != (crop.width, crop.height):
            pixels = cv2.resize(pixels, small, interpolation=cv2.INTER_AREA)
        if small != (CROP, CROP):
            pixels = cv2.resize(pixels, (CROP, CROP), interpolation=cv2.INTER_LINEAR)
        if flips[number]:
            cv2.flip(pixels, 1, dst=out)
        else:
            np.copyto(out, pixels)

    return work


def packer_work(pack: Path, task: str, payloads: list[memoryview]) -> Work:
    """Do the work of packer's readers after reading a payload."""
    decoder = PackedDataset(pack, transform=transforms(task), decode="numpy").decoder

    def draw(number: int) -> Draws:
        return Draws(combine(number))

    def work(numbers: Sequence[int], outs: Any) -> None:
        some = [payloads[number] for number in numbers]
        for place in decoder.write_all(some, numbers, draw, outs):
            number = numbers[place]
            decoder.write(payloads[number], number, draw(number), outs[place])

    return work


def copy_work(pack: Path, task: str, payloads: list[memoryview]) -> Work:
    """Copy as many bytes as a crop has."""
    size = CROP * CROP * 3
    # The last bytes: a header comes first.
    stored = [np.frombuffer(payload, np.uint8)[-size:] for payload in payloads]

    def work(numbers: Sequence[int], outs: Any) -> None:
        for number, out in zip(numbers, outs, strict=True):
            np.copyto(out.reshape(-1), stored[number])

    return work


WORKS: dict[str, Callable[[Path, str, list[memoryview]], Work]] = {
    "copy": copy_work,
    "decode": decode_work,
    "packer": packer_work,
    "pixels": pixels_work,
}


def run(
    work: Work,
    count: int,
    workers: int,
    epochs: int = 1,
    seconds: float = float("inf"),
    look: bool = False,
) -> dict[str, Any]:
    """Work until all pictures are done or the time is up; return images, seconds and the total."""
    fork = multiprocessing.get_context("fork")
    shared = Pass(
        work, count, count * epochs, seconds, fork.Value("q", 0), fork.Barrier(workers), look
    )
    # With fork, initargs are inherited, not pickled.
    with ProcessPoolExecutor(workers, fork, initializer=_share, initargs=(shared,)) as pool:
        shares = list(pool.map(_take, range(workers)))
    start = min(share[0] for share in shares)
    end = max(share[1] for share in shares)
    images = sum(share[2] for share in shares)
    return {
        "images": images,
        "seen": images,
        "seconds": end - start,
        "first": 0.0,
        "total": sum(share[3] for share in shares),
    }


def _share(shared: Pass) -> None:
    """Keep the inherited state, in a new process."""
    global _shared  # noqa: PLW0603  (a pool's initializer has no other way)
    _shared = shared


def _take(_: int) -> tuple[float, float, int, int]:
    """Take pictures until none is left, in a process; return begin, end, pictures, sum of
    values.
    """
    shared = _shared
    cv2.setNumThreads(0)
    outs = np.zeros((BATCH, CROP, CROP, 3), np.uint8)
    shared.work([0], outs[:1])  # the first call sets up its state
    shared.ready.wait(READY_SECONDS)
    images = total = 0
    start = time.monotonic()
    while time.monotonic() < start + shared.seconds:
        with shared.taken.get_lock():
            first = shared.taken.value
            shared.taken.value = last = min(first + TAKE, shared.most)
        if first == last:
            break
        place = images % (BATCH - TAKE + 1)
        some = outs[place : place + last - first]
        shared.work([number % shared.count for number in range(first, last)], some)
        images += last - first
        if shared.look:
            total += int(some.sum())
    return start, time.monotonic(), images, total


_shared: Pass

if __name__ == "__main__":
    main()
