"""Read a pack through PyTorch's DataLoader, as a training loop does, and print the speed.

python scripts/demo_read.py PACK
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from torch.utils.data import DataLoader

from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import RandomHorizontalFlip, RandomResizedCrop

#: Small, so that even the sample's few hundred pictures make several mini-batches.
BATCH_SIZE = 32
EPOCHS = 2


def main() -> None:
    """Read two epochs; the first includes the start of the workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=Path, help="folder that packer convert made")
    parser.add_argument("--split", default="train")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()

    transform = [RandomResizedCrop(224), RandomHorizontalFlip()]
    dataset = PackedDataset(options.pack, options.split, transform=transform, decode="numpy")
    stream = BatchStream(dataset, BATCH_SIZE, tail="keep")
    loader = DataLoader(
        stream,
        batch_size=None,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    print(
        f"{options.split}: {len(dataset)} images of {len(dataset.classes)} classes,"
        f" {options.workers} workers"
    )
    for epoch in range(EPOCHS):
        start, count = time.perf_counter(), 0
        for images, _labels in loader:
            count += len(images)
        seconds = time.perf_counter() - start
        print(
            f"epoch {epoch}: {count} images as mini-batches of {tuple(images.shape[1:])}"
            f" {images.dtype} in {seconds:.2f} s, {count / seconds:.0f} images/s"
            f"{' (starting the workers included)' if epoch == 0 else ''}"
        )


if __name__ == "__main__":
    main()
