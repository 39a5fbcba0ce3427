"""The work that all of `bench_read.py`'s readers do, and where packer's own find it."""

from __future__ import annotations

from pathlib import Path

from packer.reader.transforms import BuiltIn, CenterCrop, RandomHorizontalFlip, RandomResizedCrop

#: Samples in a mini-batch, and its pictures' side in pixels.
BATCH, CROP = 128, 224
#: Random crops and flips of JPEGs, their middles, and the middles of raw pixels.
TASKS = ("train", "center", "raw")
#: Distributions whose versions belong to a figure of packer's.
LIBRARIES = ("packer-shards", "numpy", "torch", "simplejpeg", "opencv-python")


def pack_of(data: Path, task: str) -> Path:
    """The pack that a task reads: of JPEGs, or of pixels."""
    return data / ("pack-raw" if task == "raw" else "pack")


def transforms(task: str) -> list[BuiltIn]:
    """What is done to each picture."""
    if task == "train":
        return [RandomResizedCrop(CROP), RandomHorizontalFlip()]
    return [CenterCrop(CROP)]
