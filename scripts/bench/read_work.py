"""Define the work of all readers of `bench_read.py`, and the packs of packer's readers."""

from __future__ import annotations

from pathlib import Path

from packer.reader.transforms import BuiltIn, CenterCrop, RandomHorizontalFlip, RandomResizedCrop

#: Samples in a mini-batch, and its pictures' side in pixels.
BATCH, CROP = 128, 224
#: Random crops and flips of JPEGs, center crops of JPEGs, and center crops of raw pixels.
TASKS = ("train", "center", "raw")
#: Distributions whose versions are reported with packer's figures.
LIBRARIES = ("packer-shards", "numpy", "torch", "simplejpeg", "opencv-python")


def pack_of(data: Path, task: str) -> Path:
    """Return the pack that a task reads: of JPEGs, or of pixels."""
    return data / ("pack-raw" if task == "raw" else "pack")


def transforms(task: str) -> list[BuiltIn]:
    """Return the transforms of each picture."""
    if task == "train":
        return [RandomResizedCrop(CROP), RandomHorizontalFlip()]
    return [CenterCrop(CROP)]
