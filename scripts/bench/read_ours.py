"""Run packer's readers for `bench_read.py`: Loader, and BatchStream in a DataLoader.

    python -m bench.read_ours loader|stream --data DIR --task TASK --workers N

With `--quality fast` the JPEGs are decoded by decode_quality="fast".
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from bench.read_serve import Epoch, serve
from bench.read_work import BATCH, LIBRARIES, TASKS, pack_of, transforms
from packer.reader import BatchStream, PackedDataset


def main() -> None:
    """Open the pack and answer requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", choices=("loader", "stream"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--quality", choices=("exact", "fast"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    more = {"decode_quality": options.quality} if options.quality else {}
    dataset = PackedDataset(
        pack_of(options.data, options.task),
        transform=transforms(options.task),
        decode="numpy",
        **more,
    )
    opened = open_loader if options.reader == "loader" else open_stream
    # Loader maps files of a local disk.
    serve(opened(dataset, options.workers), LIBRARIES, dataset.payloads.files.close)


def open_loader(dataset: PackedDataset, workers: int) -> Epoch:
    """Read in threads of this process."""
    from packer.reader import Loader

    loader = Loader(dataset, batch_size=BATCH, threads=workers, tail="keep")

    def epoch(number: int) -> Any:
        loader.set_epoch(number)
        return loader

    return epoch


def open_stream(dataset: PackedDataset, workers: int) -> Epoch:
    """Read in worker processes of a DataLoader."""
    stream = BatchStream(dataset, BATCH, tail="keep")
    loader: DataLoader[Any] = DataLoader(
        stream, batch_size=None, num_workers=workers, persistent_workers=True
    )

    def epoch(number: int) -> Any:
        stream.set_epoch(number)
        return loader

    return epoch


if __name__ == "__main__":
    main()
