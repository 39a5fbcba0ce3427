"""Keep samples on disk until all are written, and then read them in random order."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from packer.files.fsio import output_errors, remove_if_there
from packer.files.naming import temp_path
from packer.packing.planning.labels import hash_paths
from packer.types import Sample


class Spool:
    """A file of encoded samples. Memory holds 16 bytes and the hash of the path for each.

    Args:
        folder: Folder of the temporary file.
        seed: Seed of the order, which depends only on it and on the samples' paths.

    Raises:
        OutputError: The file system refused.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._path = temp_path(folder, "spool")
        self._seed = seed
        self._ends: array[int] = array("q", [0])
        self._rank: array[int] = array("Q")
        with output_errors(self._path):
            self._file = self._path.open("w+b")

    def add(self, sample: Sample) -> None:
        """Append a sample."""
        sizes = {name: len(payload) for name, payload in sample.payloads.items()}
        head = [sample.path.hex(), sample.label, sample.width, sample.height, sample.notes, sizes]
        data = b"".join((json.dumps(head).encode(), b"\n", *sample.payloads.values()))
        with output_errors(self._path):
            self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))
        self._rank.append(int(hash_paths([sample.path], b"order", self._seed)[0]))

    def shuffled(self, first: int) -> Iterator[Sample]:
        """All samples in random order, with slots from `first` on."""
        with output_errors(self._path):
            self._file.flush()
        for slot, number in enumerate(np.argsort(self._rank, kind="stable").tolist(), first):
            start, end = self._ends[number], self._ends[number + 1]
            with output_errors(self._path):
                data = os.pread(self._file.fileno(), end - start, start)
            yield _sample(slot, data)

    def remove(self) -> None:
        """Remove the file."""
        self._file.close()
        remove_if_there(self._path)


def _sample(slot: int, data: bytes) -> Sample:
    head, _, rest = data.partition(b"\n")
    path, label, width, height, notes, sizes = json.loads(head)
    payloads = {}
    place = 0
    for name, size in sizes.items():
        payloads[name] = rest[place : place + size]
        place += size
    return Sample(slot, bytes.fromhex(path), label, width, height, payloads, notes)
