"""Images/s of one training epoch: from the image folder, and from the pack made of it.

    python scripts/bench_article.py FOLDER PACK --pillow-python PYTHON [--json OUT]

FOLDER has class folders with pictures, PACK is what `packer convert FOLDER --resize 256 --split
none` made of it, PYTHON is that of an environment with stock Pillow, numpy and torch. Three ways,
each with 1 and 2 DataLoader workers:

    folder, Pillow        decode, Resize(256), RandomCrop(224), as ImageFolder with torchvision
    folder, pillow-simd   the same in this environment
    pack                  BatchStream and the same RandomCrop(224)

All give mini-batches N×3×224×224 uint8. Each measurement is a process of its own; the ways take
turns in every round; everything is read once beforehand, so that the page cache is warm if the
files fit into memory. The time is that of a whole epoch, starting the workers included, imports
and opening not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from bench.figures import cell, machine, read_once

SIZE, CROP = 256, 224
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


@dataclass(frozen=True)
class Way:
    """One way of reading, and the Python that goes it."""

    name: str
    python: str
    stage: str
    path: Path


@dataclass(frozen=True)
class Result:
    """One epoch. `versions`: of the libraries that took part."""

    images: int
    seconds: float
    versions: dict[str, str]


#: Of each way's name and number of workers, one a round.
Results: TypeAlias = dict[tuple[str, int], list[Result]]


def main() -> None:
    """Measure and print, or be the process that is measured."""
    options = parse()
    if options.stage:
        print(json.dumps(asdict(STAGES[options.stage](options))))
        return
    check_pillow(options.pillow_python, simd=False)
    check_pillow(sys.executable, simd=True)
    ways = [
        Way("folder, Pillow", options.pillow_python, "folder", options.folder),
        Way("folder, pillow-simd", sys.executable, "folder", options.folder),
        Way("pack", sys.executable, "pack", options.pack),
    ]
    for path in (options.folder, options.pack):
        read_once(path)
    results: Results = {}
    for number in range(options.rounds):
        for workers in options.workers:
            for way in ways:
                result = measure(way, workers, options.batch_size)
                results.setdefault((way.name, workers), []).append(result)
                speed = result.images / result.seconds
                print(
                    f"round {number}, workers: {workers}, {way.name}: {speed:.0f} images/s",
                    file=sys.stderr,
                )
    print(table(ways, options.workers, results))
    if options.json:
        options.json.write_text(json.dumps(report(ways, options, results), indent=1) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--pillow-python", metavar="PYTHON", help="Python with stock Pillow")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--json", type=Path, help="write all measurements there")
    parser.add_argument("--stage", choices=sorted(STAGES), help=argparse.SUPPRESS)
    return parser.parse_args()


def check_pillow(python: str | None, simd: bool) -> None:
    """Stop unless that Python has what its measurements will be called."""
    wanted = "pillow-simd" if simd else "stock Pillow (give one with --pillow-python)"
    command = [python or "", "-c", "import numpy, torch, PIL; print(PIL.__version__)"]
    try:
        version = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"needs a Python with numpy, torch and {wanted}: {error}")
    if (".post" in version) != simd:  # pillow-simd's versions end in .postN
        sys.exit(f"{python} has PIL {version.strip()}, not {wanted}")


def measure(way: Way, workers: int, batch_size: int) -> Result:
    """One epoch in a process of its own."""
    command = [way.python, __file__, str(way.path), str(way.path), "--stage", way.stage]
    command += ["--workers", str(workers), "--batch-size", str(batch_size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{way.name}: {' '.join(command)} failed with exit code {done.returncode}")
    return Result(**json.loads(done.stdout))


def table(ways: list[Way], worker_counts: list[int], results: Results) -> str:
    """Medians with lowest and highest, and the pack's ratio to the other ways, round by round."""
    pack = ways[-1].name
    first = results[pack, worker_counts[0]]
    lines = [
        f"images/s of one epoch of {first[0].images} images: median of {len(first)} rounds"
        " (lowest to highest), warm cache",
        " " * 36 + "".join(f"{f'workers: {count}':<24}" for count in worker_counts).rstrip(),
    ]
    for way in ways:
        library = results[way.name, worker_counts[0]][0].versions
        name = f"{way.name} {library.get('pillow', library.get('packer'))}"
        lines.append(row(name, [speeds(results[way.name, n]) for n in worker_counts], digits=0))
    for way in ways[:-1]:
        columns = [ratios(results[pack, n], results[way.name, n]) for n in worker_counts]
        lines.append(row(f"pack / {way.name}", columns, digits=2))
    return "\n".join(lines)


def row(name: str, columns: list[list[float]], digits: int) -> str:
    """One line of the table, a cell for each column."""
    cells = (cell(values, digits) for values in columns)
    return (f"{name:<36}" + "".join(f"{text:<24}" for text in cells)).rstrip()


def speeds(results: Iterable[Result]) -> list[float]:
    """Images/s of each round."""
    return [result.images / result.seconds for result in results]


def ratios(fast: list[Result], slow: list[Result]) -> list[float]:
    """How many times as fast, round by round: what slows a whole round down cancels out."""
    return [one / other for one, other in zip(speeds(fast), speeds(slow), strict=True)]


def report(ways: list[Way], options: argparse.Namespace, results: Results) -> dict[str, Any]:
    """Everything that was measured, as JSON values."""
    return {
        "schema": "packer-bench-article-1",
        "machine": machine(),
        "batch_size": options.batch_size,
        "resize": SIZE,
        "crop": CROP,
        "measurements": [
            {
                "way": way.name,
                "workers": workers,
                "images_per_second": speeds(results[way.name, workers]),
                "ratio_of_pack": ratios(
                    results[ways[-1].name, workers], results[way.name, workers]
                ),
                **asdict(results[way.name, workers][0]),
            }
            for way in ways
            for workers in options.workers
        ],
    }


def folder_stage(options: argparse.Namespace) -> Result:
    """One epoch as ImageFolder with torchvision's transforms gives it."""
    import numpy as np
    import PIL
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    class Folder(Dataset[Any]):
        """Sorted class folders, every picture decoded, resized and cropped when asked for."""

        def __init__(self, root: Path) -> None:
            classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
            self.samples = [
                (path, label)
                for label, name in enumerate(classes)
                for path in sorted((root / name).iterdir())
                if path.suffix.lower() in EXTENSIONS
            ]

        def __len__(self) -> int:
            return len(self.samples)

        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            path, label = self.samples[number]
            with path.open("rb") as file:
                image = Image.open(file).convert("RGB")
            width, height = image.size
            if width <= height:
                size = (SIZE, int(SIZE * height / width))
            else:
                size = (int(SIZE * width / height), SIZE)
            # torchvision's default filter for Resize
            image = image.resize(size, Image.Resampling.BILINEAR)
            pixels = np.array(image)
            return torch.from_numpy(random_crop(pixels)).permute(2, 0, 1), label

    loader = DataLoader(
        Folder(options.folder),
        options.batch_size,
        shuffle=True,
        num_workers=options.workers[0],
        drop_last=True,
    )
    count, seconds = epoch(loader)
    return Result(count, seconds, {"pillow": PIL.__version__, **versions()})


def pack_stage(options: argparse.Namespace) -> Result:
    """One epoch of BatchStream."""
    from torch.utils.data import DataLoader

    import packer
    from packer.reader import BatchStream, PackedDataset

    dataset = PackedDataset(options.pack, transform=random_crop, decode="numpy")
    stream = BatchStream(dataset, options.batch_size)
    loader = DataLoader(stream, batch_size=None, num_workers=options.workers[0])
    count, seconds = epoch(loader)
    return Result(count, seconds, {"packer": packer.__version__, **versions()})


def random_crop(pixels: Any) -> Any:
    """A random CROP×CROP part of an H×W×3 array; torch's random numbers differ by worker."""
    import torch

    height, width = pixels.shape[:2]
    top = int(torch.randint(height - CROP + 1, ()))
    left = int(torch.randint(width - CROP + 1, ()))
    return pixels[top : top + CROP, left : left + CROP]


def epoch(loader: Iterable[Any]) -> tuple[int, float]:
    """Images and seconds."""
    start, count = time.perf_counter(), 0
    for images, _labels in loader:
        assert tuple(images.shape[1:]) == (3, CROP, CROP), images.shape
        count += len(images)
    return count, time.perf_counter() - start


def versions() -> dict[str, str]:
    """Versions of what both stages use."""
    import numpy as np
    import torch

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }


STAGES: dict[str, Callable[[argparse.Namespace], Result]] = {
    "folder": folder_stage,
    "pack": pack_stage,
}

if __name__ == "__main__":
    main()
