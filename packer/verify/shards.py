"""Do the tasks of `packer verify`'s workers: compare one file, read the samples of one batch."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from packer.codecs import load_codec
from packer.errors import DamageError, ImageError, PackerError
from packer.files.fsio import sha256_file
from packer.pack.payloads import Payloads


@dataclass(frozen=True)
class ListedFile:
    """A file and its entry in the manifest."""

    path: Path
    size: int
    sha256: str


def name_file(file: ListedFile) -> str:
    """Return a file's name for an error."""
    return str(file.path)


def compare_file(file: ListedFile) -> str:
    """Return how a file differs; "" if it does not."""
    try:
        status = file.path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        if status.st_size != file.size:
            return f"has {status.st_size} bytes, the manifest says {file.size}"
        return "" if sha256_file(file.path) == file.sha256 else "its SHA-256 differs"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


@dataclass(frozen=True)
class ReadTask:
    """One batch whose samples are to be read."""

    payloads: Payloads
    batch: int
    decode: bool


def name_batch(task: ReadTask) -> str:
    """Return a batch's name for an error."""
    return f"{task.payloads.pack.split}, batch {task.batch}"


def read_batch(task: ReadTask) -> list[str]:
    """Return the damage in one batch, one line per sample."""
    pack = task.payloads.pack
    image = next(entry for entry in pack.manifest.fields if entry.kind == "image")
    first = int(pack.index["batch_first"][task.batch])
    samples = range(first, first + int(pack.index["batch_count"][task.batch]))
    codec = load_codec(str(image.codec), pack.manifest.libraries) if task.decode else None
    damage = []
    try:
        span = task.payloads.span(task.batch)
    except PackerError as error:
        return [error.message]
    for sample in samples:
        try:
            payload = task.payloads.cut([span], np.array([sample]), image.name)[0]
            if codec is not None and payload is not None:
                width, height = (int(pack.index[name][sample]) for name in ("width", "height"))
                codec.decode(payload, width, height)
        except DamageError as error:
            damage.append(error.message)
        except ImageError as error:
            damage.append(f"{pack.describe(sample, image.name)}: {error.message}")
    return damage
