"""Train a small classifier on a pack with DistributedDataParallel, and resume from checkpoints.

    torchrun --nproc-per-node 2 train_ddp.py PACK --checkpoint run.pt

If the run is killed, the same command resumes from the last checkpoint, also with another number of
processes or nodes: the global batch size stays, so the mini-batches are those of an unbroken run.
After each epoch the model is tested on the split `val`, if the pack has one. `--check` only checks
the arguments; it needs no pack and no GPU, so it can run before a pack is made.
To use packer in your own script, copy `stream_of` and the lines of `main` with `stream`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from packer.pack.manifest import read_manifest
from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import CenterCrop, RandomHorizontalFlip, RandomResizedCrop


def main() -> None:
    """Train, with one process for each GPU."""
    options = parse()
    if options.check:
        return
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)

    stream = stream_of(options, "train")
    val = validation_split(options)
    workers = {"num_workers": options.workers, "persistent_workers": options.workers > 0}
    loader: DataLoader[Any] = DataLoader(stream, batch_size=None, pin_memory=cuda, **workers)
    classes = len(stream.dataset.classes)
    model = DistributedDataParallel(network(classes).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if options.checkpoint.exists():
        saved = torch.load(options.checkpoint, map_location=device)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        stream.load_state_dict(saved["stream"])

    for epoch in range(stream.epoch, options.epochs):  # each loop reads the next epoch
        step, loss = 0, torch.zeros(())
        for step, mini_batch in enumerate(loader, 1):
            images, labels = (field.to(device, non_blocking=True) for field in mini_batch)
            loss = nn.functional.cross_entropy(model(images.float() / 255), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % options.every == 0:
                save(options.checkpoint, model, optimizer, stream.state_dict(step=step))
        save(options.checkpoint, model, optimizer, stream.state_dict(step=step))
        line = f"epoch {epoch}: {step} steps, loss {loss.item():.3f}"
        if val is not None:
            line += f", {accuracy(model.module, stream_of(options, val), device):.1%} accuracy"
        if dist.get_rank() == 0:
            print(line)
    dist.destroy_process_group()


def validation_split(options: argparse.Namespace) -> str | None:
    """Return the split of --val, else `val`; None if the pack has no split `val`."""
    known = tuple(read_manifest(options.pack).splits)
    if options.val is not None and options.val not in known:
        raise SystemExit(f"{options.pack} has no split {options.val!r}, only {', '.join(known)}")
    if options.val is None and "val" not in known:
        if dist.get_rank() == 0:
            print("training without validation: the pack has no split 'val' (--val names another)")
        return None
    return str(options.val or "val")


def stream_of(options: argparse.Namespace, split: str) -> BatchStream:
    """Return this rank's mini-batches of a split; torch.distributed gives BatchStream the rank."""
    train = split == "train"
    transform = [RandomResizedCrop(options.size), RandomHorizontalFlip()] if train else None
    dataset = PackedDataset(
        options.pack, split, transform=transform or CenterCrop(options.size), decode="numpy"
    )
    batch_size, rest = divmod(options.global_batch_size, dist.get_world_size())
    if rest or not batch_size:
        size = f"--global-batch-size {options.global_batch_size}"
        raise SystemExit(f"{size} cannot be divided among {dist.get_world_size()} ranks")
    return BatchStream(dataset, batch_size, shuffle="window" if train else "none")


def accuracy(model: nn.Module, stream: BatchStream, device: torch.device) -> float:
    """Return the accuracy over the samples of all ranks, each of which is in one mini-batch."""
    counts = torch.zeros(2, device=device)
    model.eval()
    with torch.no_grad():
        for images, labels in stream:
            found = model(images.to(device).float() / 255).argmax(1)
            counts += torch.tensor([(found.cpu() == labels).sum(), len(labels)], device=device)
    model.train()
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def save(path: Path, model: Any, optimizer: Any, state: dict[str, Any]) -> None:
    """Write a checkpoint on rank 0, under a temporary name first: a killed run leaves no part."""
    if dist.get_rank() == 0:
        partial = path.with_name(path.name + ".partial")
        parts = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**parts, "stream": state}, partial)
        partial.replace(path)


def network(classes: int) -> nn.Module:
    """Return a small network; put your own model here."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 5, stride=4), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()),
        nn.Linear(32 * 16, classes),
    )


def parse() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--epochs", type=whole(1), default=3)
    parser.add_argument(
        "--global-batch-size", type=whole(1), default=64, help="samples per step on all ranks"
    )
    parser.add_argument("--every", type=whole(1), default=100, help="steps between checkpoints")
    parser.add_argument("--size", type=whole(1), default=224, help="side of the pictures in pixels")
    parser.add_argument("--val", help="split to test with [val, if there is one]")
    parser.add_argument("--workers", type=whole(0), default=2, help="DataLoader workers per rank")
    parser.add_argument("--check", action="store_true", help="check the arguments and exit")
    options = parser.parse_args()
    if not options.checkpoint.absolute().parent.is_dir():
        parser.error(f"--checkpoint: there is no folder {options.checkpoint.absolute().parent}")
    return options


def whole(low: int) -> Callable[[str], int]:
    """Return a type for argparse: whole numbers of at least `low`."""

    def number(text: str) -> int:
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{value} is less than {low}")
        return value

    return number


if __name__ == "__main__":
    main()
