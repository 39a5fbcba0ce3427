"""How busy a pack keeps a GPU: a ResNet-50 that is trained from it, beside one that need not wait.

    python scripts/bench_gpu.py PACK [--device cuda] [--batch-size 256] [--seconds 10] [--json FILE]

Trained in bfloat16 and channels-last, with RandomResizedCrop(224) and flip; all cases one after the
other, ROUNDS times, each with SECONDS of training behind WARM steps that do not count:

    model      the same mini-batch, on the device from the start: the limit
    loader     Loader(device=…): page-locked memory, copied ahead on a stream of its own
    plain      Loader without either: images.to(device) in the training loop
    process    Loader(process=True): all of reading and decoding in one other process
    stream     DataLoader over BatchStream, a worker each core, page-locked memory

Busy is the part of the time in which the GPU is at a step's kernels, by CUDA's own clock. With
--device cpu (for trying the script) there is no such clock, and busy is left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from bench.figures import cell, machine
from bench.resnet50 import resnet50
from packer.reader import BatchStream, Loader, PackedDataset
from packer.reader.transforms import RandomHorizontalFlip, RandomResizedCrop

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]
MEAN, SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)  # ImageNet's, of 0 to 255


def main() -> None:
    """Measure, print a table."""
    options = parse()
    device = torch.device(options.device)
    rates: dict[str, list[float]] = {name: [] for name in options.cases}
    busy: dict[str, list[float]] = {name: [] for name in options.cases}
    with Trainer(options, device) as trainer:
        for _ in range(options.rounds):
            for name in options.cases:
                rate, share = trainer.run(CASES[name](options, device))
                rates[name].append(rate)
                if share is not None:
                    busy[name].append(100 * share)
    limit = median(rates[options.cases[0]])
    print(f"{'':<10}{'images/s':>28}{'of ' + options.cases[0]:>10}{'GPU busy, %':>26}")
    for name, values in rates.items():
        ratio = f"{median(values) / limit:.2f}"
        print(f"{name:<10}{cell(values, 0):>28}{ratio:>10}{cell(busy[name], 0):>26}")
    if options.json:
        report = {
            "machine": machine(),
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "options": {name: str(value) for name, value in vars(options).items()},
            "images_per_second": rates,
            "busy_percent": busy,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pack", type=Path, help="of 10,000 pictures or more, with a split train")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--size", type=int, default=224, help="of the crops, in pixels")
    parser.add_argument("--threads", type=int, help="that decode; default: the cores there are")
    parser.add_argument("--seconds", type=float, default=10, help="of each case and round")
    parser.add_argument("--warm", type=int, default=10, help="steps of each that do not count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("this torch finds no CUDA device (--device cpu tries the script)")
    return options


class Trainer:
    """A model and what trains it, the same for all cases."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options = options
        self.device = device
        classes = len(PackedDataset(options.pack, "train").classes)
        move: Any = nn.Module.to  # whose types leave memory_format out
        self.model = move(resnet50(classes), device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
        self.spread = torch.tensor(SPREAD, device=device).view(1, 3, 1, 1)

    def __enter__(self) -> Trainer:
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        return self

    def __exit__(self, *error: object) -> None:
        torch.backends.cudnn.benchmark = False

    def run(self, batches: Batches) -> tuple[float, float | None]:
        """Images a second, and the part of the time in which the GPU is busy."""
        for images, labels in itertools.islice(batches, self.options.warm):
            self.step(images, labels)
        self.wait()
        images_seen, clock = 0, Clock(self.device)
        begun = time.perf_counter()
        for images, labels in batches:
            with clock:
                self.step(images, labels)
            images_seen += len(labels)
            if time.perf_counter() - begun > self.options.seconds:
                break
        self.wait()
        seconds = time.perf_counter() - begun
        return images_seen / seconds, clock.share(seconds)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One step of training."""
        images = images.to(self.device, non_blocking=True)
        labels = labels.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, torch.bfloat16):
            scores = self.model((images - self.mean) / self.spread)
            loss = nn.functional.cross_entropy(scores, labels)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()

    def wait(self) -> None:
        """For everything that was begun on the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class Clock:
    """The device's time inside of it, as a context manager that is entered again and again."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.marks: list[Any] = []

    def __enter__(self) -> None:
        self.mark()

    def __exit__(self, *error: object) -> None:
        self.mark()

    def mark(self) -> None:
        """The device gets here when it has done all that was begun before."""
        if self.cuda:
            event: Any = torch.cuda.Event
            self.marks.append(event(enable_timing=True))
            self.marks[-1].record()

    def share(self, seconds: float) -> float | None:
        """Of these seconds; call it when the device is done."""
        if not self.cuda:
            return None
        inside = zip(self.marks[::2], self.marks[1::2], strict=True)
        busy: float = sum(begun.elapsed_time(ended) for begun, ended in inside)  # ms
        return busy / 1000 / seconds


def model_alone(options: argparse.Namespace, device: torch.device) -> Batches:
    """One mini-batch that is there already."""
    shape = (options.batch_size, 3, options.size, options.size)
    layout: Any = torch.channels_last
    images = torch.randint(256, shape, dtype=torch.uint8, device=device)
    labels = torch.zeros(options.batch_size, dtype=torch.int64, device=device)
    return itertools.repeat((images.contiguous(memory_format=layout), labels))


def loader(options: argparse.Namespace, device: torch.device) -> Batches:
    """What README shows."""
    return epochs(loader_of(options, device=device))


def plain(options: argparse.Namespace, device: torch.device) -> Batches:
    """Copies are the training loop's."""
    return epochs(loader_of(options, pin_memory=False))


def process(options: argparse.Namespace, device: torch.device) -> Batches:
    """As where the training loop's own Python is heavy."""
    return epochs(loader_of(options, device=device, process=True))


def stream(options: argparse.Namespace, device: torch.device) -> Batches:
    """As with any other data set."""
    data = BatchStream(dataset_of(options, decode="numpy"), options.batch_size)
    workers = options.threads or loader_of(options).threads
    pin = device.type == "cuda"
    fed: Any = DataLoader(
        data, batch_size=None, num_workers=workers, persistent_workers=True, pin_memory=pin
    )
    return epochs(fed, data.set_epoch)


CASES: dict[str, Callable[[argparse.Namespace, torch.device], Batches]] = {
    "model": model_alone,
    "loader": loader,
    "plain": plain,
    "process": process,
    "stream": stream,
}


def dataset_of(options: argparse.Namespace, **more: Any) -> PackedDataset:
    """The pack's split train, augmented as is usual."""
    transform = [RandomResizedCrop(options.size), RandomHorizontalFlip()]
    return PackedDataset(options.pack, "train", transform=transform, **more)


def loader_of(options: argparse.Namespace, **more: Any) -> Loader:
    """A Loader over it."""
    threads = options.threads
    return Loader(dataset_of(options), batch_size=options.batch_size, threads=threads, **more)


def epochs(source: Any, set_epoch: Callable[[int], None] | None = None) -> Batches:
    """All mini-batches of one epoch after the other."""
    for epoch in itertools.count():
        (set_epoch or source.set_epoch)(epoch)
        yield from source


if __name__ == "__main__":
    main()
