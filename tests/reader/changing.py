"""Readers whose pack changes during reading, each in a process of its own.

    python changing.py WORK READER:FORMAT:CODEC:FILES:CHANGE …

makes packs below the folder WORK and prints a line for each trial: its name and its result. Allowed
are "right" (each picture as before) and "error" (DamageError that names one of the files);
all else is a fault: "signal N", "other pixels", another error. FILES are "shards" or "index".
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from packer.errors import DamageError
from packer.reader import BatchStream, Loader, PackedDataset
from packer.settings.options import ConvertOptions
from packer.writer import PackWriter

SIDE, SAMPLES, BATCH = 96, 48, 8
RIGHT, OTHER_PIXELS, ERROR, UNNAMED = 10, 11, 12, 13
WORDS = {RIGHT: "right", OTHER_PIXELS: "other pixels", ERROR: "error", UNNAMED: "another error"}


def write_pack(out: Path, format_name: str, codec: str, seed: int) -> Path:
    """Two shards and more; pictures of noise, as photographs are about as large."""
    random = np.random.default_rng(seed)
    options = ConvertOptions(
        format=format_name,
        codec=codec,
        batch_size=BATCH,
        shard_size=600_000,
        resize=f"{SIDE}x{SIDE}",
        resize_mode="exact",
    )
    with PackWriter(out, classes=["a", "b"], options=options) as writer:
        for number in range(SAMPLES):
            pixels = random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
            writer.write(image=pixels, label=number % 2, key=f"{number}.jpg", split="train")
    return out


def _items(pack: Path, **options: Any) -> Callable[[int], Iterator[tuple[str, Any]]]:
    data = PackedDataset(pack, "train", decode="numpy", **options)
    keys = list(data.keys)

    def epoch(number: int) -> Iterator[tuple[str, Any]]:
        for sample in range(len(data)):
            image, label = data[sample]
            yield keys[sample], (image, label)

    return epoch


def _batches(source: Any, batches: Any) -> Callable[[int], Iterator[tuple[str, Any]]]:
    def epoch(number: int) -> Iterator[tuple[str, Any]]:
        source.set_epoch(number)
        for images, labels, keys in batches:
            for image, label, key in zip(images, labels.tolist(), keys, strict=True):
                yield key, (image.permute(1, 2, 0).numpy(), label)

    return epoch


def _stream(pack: Path, workers: int = 0, **options: Any) -> Any:
    stream = BatchStream(
        PackedDataset(pack, "train", decode="numpy", **options), 4, fields=("image", "label", "key")
    )
    if not workers:
        return _batches(stream, stream)
    return _batches(stream, DataLoader(stream, batch_size=None, num_workers=workers))


def _loader(pack: Path, **options: Any) -> Any:
    loader = Loader(
        pack, "train", batch_size=4, threads=2, fields=("image", "label", "key"), **options
    )
    return _batches(loader, loader)


READERS: dict[str, Callable[[Path], Any]] = {
    "items": _items,
    "items-shm": lambda pack: _items(pack, preload="ram"),
    "stream": _stream,
    "stream-shm": lambda pack: _stream(pack, preload="ram"),
    "stream-workers": lambda pack: _stream(pack, workers=2),
    "stream-workers-shm": lambda pack: _stream(pack, workers=2, preload="ram"),
    "loader": _loader,
    "loader-shm": lambda pack: _loader(pack, preload="ram"),
    "loader-process": lambda pack: _loader(pack, process=True),
}


def _half(path: Path, other: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path, other: Path) -> None:
    os.truncate(path, 0)


def _copy_over(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)  # as cp: cut to nothing, then written


def _same_size(path: Path, other: Path) -> None:
    """Other bytes in the middle; the ends, which tell shards apart, and all times stay."""
    status = path.stat()
    middle = status.st_size // 4, status.st_size * 3 // 4
    with path.open("r+b") as file, other.open("rb") as new:
        file.seek(middle[0])
        new.seek(middle[0])
        file.write(new.read(middle[1] - middle[0]).ljust(middle[1] - middle[0], b"\1"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _replace(path: Path, other: Path) -> None:
    path.unlink()
    shutil.copyfile(other, path)


def _touch(path: Path, other: Path) -> None:
    path.touch()


CHANGES = {
    "half": _half,
    "empty": _empty,
    "copy-over": _copy_over,
    "same-size": _same_size,
    "replace": _replace,
    "touch": _touch,
}


def _try(reader: str, pack: Path, other: Path, what: str, change: str) -> int:
    """Two epochs; the pack changes in the second, when everything was compared once."""
    epoch = READERS[reader](pack)
    first = {key: (zlib.crc32(image), label) for key, (image, label) in epoch(0)}
    assert len(first) == SAMPLES
    place = pack
    if reader.endswith("-shm"):
        place = next(Path(f"/dev/shm/packer-ram-{os.getuid()}").glob(f"{pack.name}-*"))
    names = [path.name for path in place.iterdir() if path.name.startswith("train")]
    indexes = [name for name in names if name == "train.index"]
    shards = [name for name in names if not name.endswith((".index", ".idx", ".json"))]
    names = indexes if what == "index" else shards
    try:
        for number, (key, (image, label)) in enumerate(itertools.chain(epoch(1), epoch(2))):
            if number == 10:
                for name in names:
                    CHANGES[change](place / name, other / name)
            if first[key] != (zlib.crc32(image), label):
                return OTHER_PIXELS
    except DamageError as error:
        print(f"# {error}", file=sys.stderr)
        return ERROR if any(name in str(error) for name in names) else UNNAMED
    return RIGHT


def _in_a_child(*arguments: Any) -> str:
    child = os.fork()
    if child == 0:
        code = UNNAMED
        try:
            code = _try(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            gc.collect()  # copies in memory go with the last who uses them
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return WORDS.get(os.WEXITSTATUS(status), f"exit code {os.WEXITSTATUS(status)}")


def main(work: Path, trials: list[str]) -> None:
    """See above."""
    for number, trial in enumerate(trials):
        reader, format_name, codec, what, change = trial.split(":")
        made = [work / f"{name}-{format_name}-{codec}" for name in ("one", "other")]
        for seed, out in enumerate(made):
            if not out.exists():
                write_pack(out, format_name, codec, seed)
        pack = work / f"pack{number}"
        shutil.copytree(made[0], pack)
        found = _in_a_child(reader, pack, made[1], what, change)
        shutil.rmtree(pack)
        print(trial, found, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
