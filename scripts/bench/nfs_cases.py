"""Read one epoch's bytes for bench_nfs.py: from files, from one file, from packs."""

from __future__ import annotations

import os
import random
import shutil
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Parts of the data: the pictures as files, their bytes as one file, and one pack per format.
FOLDER, ONE_FILE = "folder", "one-file"
FORMATS = ("tar", "lmdb", "hdf5")
SHUFFLES = ("none", "batch", "window", "full")
#: Concurrent reads of the two folder readers: one, and those of eight threads or workers.
IN_FLIGHT = (1, 8)
#: Samples in a mini-batch, and in the packs' on-disk batches: packer's default.
BATCH_SIZE = 128
#: Bytes per read of the one file, as in cp and cat (128 KiB to 1 MiB).
_CALL_BYTES = 1 << 20


@dataclass(frozen=True)
class Case:
    """One epoch to read.

    Attributes:
        source: FOLDER, ONE_FILE or a format.
        how: Concurrent reads for the folder, a shuffle for packs.
        workers: Number of worker processes that read a pack.
    """

    source: str
    how: Any = ""
    workers: int = 0

    @property
    def name(self) -> str:
        """Return the case's name for tables."""
        text = f"{self.source} {self.how}".strip()
        return f"{text}, {self.workers} workers" if self.workers else text


@dataclass(frozen=True)
class Epoch:
    """Result of reading one epoch.

    Attributes:
        seconds: From opening the data to its last byte.
        images: Number of pictures.
        size: Bytes of all pictures.
    """

    seconds: float
    images: int
    size: int


def all_cases() -> Iterator[Case]:
    """The folder, the one file, and every format with every way of shuffling, the usual one in
    worker processes, too.
    """
    for number in IN_FLIGHT:
        yield Case(FOLDER, str(number))
    yield Case(ONE_FILE)
    for name in FORMATS:
        for shuffle in SHUFFLES:
            yield Case(name, shuffle)
        yield Case(name, "window", workers=2)


def prepare(source: Path, data: Path, images: int, resize: int, batch_size: int) -> None:
    """Make the data: packs of some pictures of an image folder, and the packs' pictures as files
    and as one file, so that all readers read the same bytes.
    """
    from packer.convert import ConvertOptions, convert_dataset
    from packer.reader import PackedDataset

    chosen = data / "chosen"
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for path in sorted(random.Random(0).sample(files, min(images, len(files)))):
        copy = chosen / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for name in FORMATS:
        options = ConvertOptions(resize=str(resize), format=name, batch_size=batch_size)
        convert_dataset(chosen, data / name, options)
    shutil.rmtree(chosen)
    dataset = PackedDataset(data / FORMATS[0], decode="bytes")
    with (data / ONE_FILE).open("wb") as one:
        for number, key in enumerate(dataset.keys):
            picture, _ = dataset[number]
            one.write(picture)
            path = data / FOLDER / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)


def list_pictures(data: Path) -> list[str]:
    """Return the folder's files, as ImageFolder lists them."""
    found = [
        os.path.join(folder, name)  # noqa: PTH118 - as os.walk gives them
        for folder, _, names in os.walk(data / FOLDER)
        for name in names
    ]
    return sorted(found)


def read_epoch(data: Path, case: Case, pictures: list[str]) -> Epoch:
    """Read all pictures once; `pictures` are the paths in the folder."""
    started = time.perf_counter()
    if case.source == FOLDER:
        sizes = _read_files(pictures, int(case.how))
    elif case.source == ONE_FILE:
        sizes = _read_one_file(data / ONE_FILE)
    else:
        sizes = _read_pack(data / case.source, case)
    return Epoch(time.perf_counter() - started, len(sizes), sum(sizes))


def _read_files(pictures: list[str], in_flight: int) -> list[int]:
    shuffled = random.Random(1).sample(pictures, len(pictures))
    with ThreadPoolExecutor(in_flight) as threads:
        return list(threads.map(_read_file, shuffled))


def _read_file(path: str) -> int:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - quicker than a Path's
        return len(file.read())


def _read_one_file(path: Path) -> list[int]:
    buffer = bytearray(_CALL_BYTES)
    sizes = []
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            sizes.append(size)
    return sizes


def _read_pack(pack: Path, case: Case) -> list[int]:
    from torch.utils.data import DataLoader

    from packer.reader import BatchStream, PackedDataset

    dataset = PackedDataset(pack, decode="bytes", transform=len)
    stream = BatchStream(
        dataset,
        BATCH_SIZE,
        shuffle=case.how,
        tail="keep",
        fields=("image",),
        rank=0,
        world_size=1,
    )
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
    loader: DataLoader[Any] = DataLoader(stream, batch_size=None, num_workers=case.workers)
    return [size for batch in loader for size in batch.image]
