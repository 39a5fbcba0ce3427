"""Measure images/s of the image libraries alone: the limit of any converter that uses them.

    python scripts/bench_limit.py FOLDER [--jobs 2] [--resize 256] [--quality 90]

The best composition of library calls that can be written by hand: simplejpeg decodes at the
smallest safe DCT scale (see `packer.imaging.jpeg.reduction`), pillow-simd resizes the shorter
side by its antialiased bicubic filter (pictures are never enlarged), simplejpeg encodes as 4:2:0.
Pixels have four bytes all along, as Pillow's have inside, so that nothing is rearranged between the
libraries. Every picture is encoded.

The files' bytes are in memory that all workers share, one process per core; a free worker takes the
largest picture that is left, so that all end together; results are discarded. The time starts when
all workers are ready and ends when the last one is done. Prints one line of JSON: `n` images,
`inner_s` seconds, `cpu_s` of all workers together.
"""

from __future__ import annotations

import argparse
import io
import json
import mmap
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from packer.imaging.jpeg import reduction

EXTENSIONS = (".jpg", ".jpeg")
#: Seconds that a worker waits for the others to be ready; forking takes milliseconds.
READY_SECONDS = 60.0


@dataclass(frozen=True)
class Work:
    """State that the workers share; they inherit it by fork.

    Attributes:
        pictures: Bytes of each file, the largest first.
        size: The shorter side in pixels.
        quality: Quality of the JPEGs.
        taken: Number of pictures taken so far.
        ready: Barrier at which the workers start together.
    """

    pictures: list[memoryview]
    size: int
    quality: int
    taken: Synchronized[int]
    ready: Barrier


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--resize", type=int, default=256)
    parser.add_argument("--quality", type=int, default=90)
    options = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    work = Work(
        load(options.folder),
        options.resize,
        options.quality,
        fork.Value("q", 0),
        fork.Barrier(options.jobs),
    )
    # With fork, initargs are inherited, not pickled.
    with ProcessPoolExecutor(options.jobs, fork, initializer=_share, initargs=(work,)) as workers:
        spans = list(workers.map(_take, range(options.jobs)))
    seconds = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
    cpu = sum(cpu for _, _, cpu in spans)
    print(json.dumps({"n": len(work.pictures), "inner_s": seconds, "cpu_s": cpu}))


def load(folder: Path) -> list[memoryview]:
    """Return the bytes of all JPEG files below a folder, the largest first, in one shared memory.

    Separate objects would be copied into every worker: it writes their reference counts.
    """
    files = [path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS]
    sizes = {path: path.stat().st_size for path in files}
    files = sorted((path for path in files if sizes[path]), key=lambda path: -sizes[path])
    if not files:
        raise SystemExit(f"{folder}: no JPEG files")
    memory = memoryview(mmap.mmap(-1, sum(sizes.values())))
    pictures, end = [], 0
    for path in files:
        start, end = end, end + sizes[path]
        memory[start:end] = path.read_bytes()
        pictures.append(memory[start:end].toreadonly())
    return pictures


def transcode(data: memoryview, size: int, quality: int) -> bytes:
    """Decode, resize, encode one JPEG file."""
    pixels, width, height, divisor = decode(data, size)
    target = resized(width, height, size)
    if target != (width, height):
        shape = (pixels.shape[1], pixels.shape[0])
        image = Image.frombuffer("RGBX", shape, pixels, "raw", "RGBX", 0, 1)
        box = (0.0, 0.0, width / divisor, height / divisor)
        pixels = np.asarray(image.resize(target, Image.Resampling.BICUBIC, box=box))
    payload: bytes = simplejpeg.encode_jpeg(pixels, quality, "RGBX", "420")
    return payload


def decode(data: memoryview, size: int) -> tuple[Any, int, int, int]:
    """Return pixels H×W×4 uint8, width and height at full scale, and the divisor of the scale."""
    try:
        height, width = simplejpeg.decode_jpeg_header(data, strict=False)[:2]
        divisor = reduction(width, height, resized(width, height, size))
        pixels = simplejpeg.decode_jpeg(
            data,
            "RGBX",
            min_width=-(-width // divisor),
            min_height=-(-height // divisor),
            min_factor=divisor,
            strict=False,
        )
    except ValueError:  # CMYK, or an image of another kind under a JPEG's name
        image = Image.open(io.BytesIO(data)).convert("RGB").convert("RGBX")
        return np.asarray(image), *image.size, 1
    return pixels, width, height, divisor


def resized(width: int, height: int, size: int) -> tuple[int, int]:
    """Return (width, height) with the shorter side `size`; pictures are never enlarged."""
    if min(width, height) <= size:
        return width, height
    if width <= height:
        return size, size * height // width
    return size * width // height, size


def _share(work: Work) -> None:
    """Keep the inherited state, in a new worker."""
    global _work  # noqa: PLW0603  (a pool's initializer has no other way)
    _work = work


def _take(_: int) -> tuple[float, float, float]:
    """Take pictures until none is left, in a worker; return begin, end and CPU seconds."""
    work, count = _work, len(_work.pictures)
    transcode(work.pictures[-1], work.size, work.quality)  # the first call sets up its state
    work.ready.wait(READY_SECONDS)
    start, cpu = time.monotonic(), time.process_time()
    while True:
        with work.taken.get_lock():
            number = work.taken.value
            work.taken.value = number + 1
        if number >= count:
            return start, time.monotonic(), time.process_time() - cpu
        transcode(work.pictures[number], work.size, work.quality)


_work: Work

if __name__ == "__main__":
    main()
