"""Train a small classifier on a pack in a plain PyTorch loop, on a GPU if there is one.

    python train.py PACK

Replace the network, the transform and the number of epochs by your own.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import RandomHorizontalFlip, RandomResizedCrop


def main(pack: str, epochs: int = 3) -> None:
    """Train on the split `train`, and print the loss of each epoch's last mini-batch."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = [RandomResizedCrop(224), RandomHorizontalFlip()]
    dataset = PackedDataset(pack, "train", transform=transform, decode="numpy")
    stream = BatchStream(dataset, batch_size=64, tail="keep")
    loader: DataLoader[Any] = DataLoader(
        stream,
        batch_size=None,  # the stream yields whole mini-batches
        num_workers=2,
        persistent_workers=True,
        pin_memory=device.type == "cuda",
    )
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 5, stride=4), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * 16, len(dataset.classes))),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):  # each loop over the loader reads the next epoch
        for images, labels in loader:  # 64×3×224×224 uint8, 64 int64
            inputs = images.to(device, non_blocking=True).float() / 255
            loss = nn.functional.cross_entropy(model(inputs), labels.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
