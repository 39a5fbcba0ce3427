"""Trains a small classifier on a pack, on any number of GPUs or CPUs, and goes on where it stopped.

    torchrun --nproc-per-node 2 scripts/train_ddp.py PACK --checkpoint run.pt

Killed at any moment, the same command goes on from the last checkpoint, also with another number of
processes or nodes: as the global batch size stays, the mini-batches are those of an unbroken run.
Written to be copied: what a pack needs is in `stream_of`, `main` and the two lines with `state`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import CenterCrop, RandomHorizontalFlip, RandomResizedCrop


def main() -> None:
    """Train, one process a GPU."""
    options = parse()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)

    stream = stream_of(options, "train")
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

    for epoch in range(stream.epoch, options.epochs):  # each loop over the loader is the next one
        step, loss = 0, torch.zeros(())
        for step, mini_batch in enumerate(loader, 1):
            images, labels = (field.to(device, non_blocking=True) for field in mini_batch)
            loss = nn.functional.cross_entropy(model(images.float() / 255), labels)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            if step % options.every == 0:
                save(options.checkpoint, model, optimizer, stream.state_dict(step=step))
        save(options.checkpoint, model, optimizer, stream.state_dict(step=step))
        right = accuracy(model.module, stream_of(options, options.val), device)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {step} steps, loss {loss.item():.3f}, {right:.1%} right")
    dist.destroy_process_group()


def stream_of(options: argparse.Namespace, split: str) -> BatchStream:
    """This rank's mini-batches of a split. Ranks are found by themselves."""
    train = split == "train"
    transform = [RandomResizedCrop(options.size), RandomHorizontalFlip()] if train else None
    dataset = PackedDataset(
        options.pack, split, transform=transform or CenterCrop(options.size), decode="numpy"
    )
    batch_size = options.global_batch_size // dist.get_world_size()
    return BatchStream(dataset, batch_size, shuffle="window" if train else "none")


def accuracy(model: nn.Module, stream: BatchStream, device: torch.device) -> float:
    """The part of all ranks' samples, each of which is in one mini-batch, that is classed right."""
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
    """Write a checkpoint, on rank 0; whole or not at all."""
    if dist.get_rank() == 0:
        partial = path.with_name(path.name + ".partial")
        parts = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**parts, "stream": state}, partial)
        partial.replace(path)


def network(classes: int) -> nn.Module:
    """Any model goes here."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 5, stride=4), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()),
        nn.Linear(32 * 16, classes),
    )


def parse() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch-size", type=int, default=64)
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--val", default="val", help="split to test with")
    parser.add_argument("--workers", type=int, default=2, help="a rank")
    return parser.parse_args()


if __name__ == "__main__":
    main()
