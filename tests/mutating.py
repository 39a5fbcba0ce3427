"""Mutated packs, as an attacker would make them: their digests and checksums are right.

Each is opened in a process of its own, with little memory and time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from packer.cli import _group
from packer.errors import DamageError, PackerError, UsageError
from packer.pack.index import IndexFile, encode_index
from packer.pack.manifest import seal
from packer.reader import BatchStream, PackedDataset
from packer.reader.transforms import CenterCrop

#: More memory than any use of a small pack needs, and less than a mutated number may request.
MEMORY = 1 << 30
#: Seconds until a use counts as endless; on a slow machine it takes one.
SECONDS = 60
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 255, -128, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 32),
    *((1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**400, 0.5, -1e300, float("nan")),
    *("", ".", "..", "../x", "/etc/passwd", "a\0b", "\ud800", "\x1b[2J", "x" * 5000, "тест"),
    *([], {}, [[]], [1, 2], {"a": 1}, [None], ["x"], "raw", "png", "tar", "<i8", "|u1"),
)


def mutate_json(value: Any, draw: random.Random) -> None:
    """Change one place of a JSON object."""
    place, key = draw.choice(list(_places(value)))
    old = place[key]
    kind = draw.randrange(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and type(old) is int:
        place[key] = old + draw.choice((-1, 1, 1000, -old * 2, old))
    elif kind == 2 and isinstance(old, str):
        place[key] = draw.choice((old[:-1], old + "x", old.upper(), old.replace("0", "1")))
    elif kind == 3:
        other, second = draw.choice(list(_places(value)))
        place[key] = json.loads(json.dumps(other[second]))
    elif kind == 4 and isinstance(place, dict):
        place[draw.choice(("x", "../x", "", "train-000000.tar"))] = place.pop(key)
    else:
        place[key] = draw.choice(ODD_VALUES)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in keys:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def mutate_manifest(pack: Path, draw: random.Random) -> None:
    value = _read_manifest(pack)
    for _ in range(draw.choice((1, 1, 2))):
        mutate_json(value, draw)
    (pack / "manifest.json").write_bytes(seal(value))


def mutate_index(pack: Path, draw: random.Random) -> None:
    """Change an index, and what the manifest says of it."""
    path = draw.choice(sorted(pack.glob("*.index")))
    index = IndexFile(path)
    arrays = {name: index[name].copy() for name in index.names()}
    if draw.random() < 0.2:
        data = _with_header(path.read_bytes(), draw)
    else:
        meta = dict(index.meta)
        for _ in range(draw.choice((1, 1, 2, 3))):
            _mutate_array(arrays, draw)
        if draw.random() < 0.1:
            mutate_json(meta, draw)
        data = encode_index(arrays, meta)
    path.write_bytes(data)
    value = _read_manifest(pack)
    digest = hashlib.sha256(data).hexdigest()
    for split in value["splits"].values():
        if split["index"] == path.name:
            split["index_bytes"], split["index_sha256"] = len(data), digest
    if path.name in value["files"]:
        value["files"][path.name] = {"size": len(data), "sha256": digest}
    (pack / "manifest.json").write_bytes(seal(value))


def _read_manifest(pack: Path) -> Any:
    value = json.loads((pack / "manifest.json").read_bytes())
    del value["sha256"]
    return value


def _mutate_array(arrays: dict[str, Any], draw: random.Random) -> None:
    name = draw.choice(list(arrays))
    array = arrays[name]
    kind = draw.randrange(8)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array.astype(draw.choice(("<i8", "<i4", "<u4", "|u1", "<f8", "|b1")))
    elif kind == 2:
        arrays[name] = draw.choice((array[:-1], np.concatenate([array, array]), array[None]))
    elif kind == 3:
        arrays[name] = array[::-1]
    elif array.size:
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.iinfo(np.int8)
        odd = (limits.min, limits.max, limits.max // 2, -1, 0, 1, 2, 4096, 13_000, 65_535)
        number = int(np.clip(draw.choice(odd), limits.min, limits.max))
        if kind == 4:
            array[...] = number
        else:
            array.reshape(-1)[draw.randrange(array.size)] = number


def _with_header(data: bytes, draw: random.Random) -> bytes:
    """An index whose JSON header is changed, and may have become longer than its room."""
    _, length, _, _ = struct.unpack("<8sQII", data[:24])
    value = json.loads(data[24 : 24 + length])
    mutate_json(value, draw)
    header = json.dumps(value).encode()
    start = data[:8] + struct.pack("<QII", len(header), zlib.crc32(header), 0) + header
    return start + data[len(start) :]


def uses(pack: Path, room: Path) -> dict[str, Callable[[], object]]:
    """Everything that reads a pack, by name. `room`: a folder for copies."""
    commands: dict[str, list[str]] = {
        "verify": ["verify", "--decode", "-j", "1", "--backend", "sequential", str(pack)],
        "ls": ["ls", str(pack)],
        "cat": ["cat", str(pack), "001.class0/001_0001.jpg"],
        "info": ["info", str(pack)],
        "info --json": ["info", "--json", str(pack)],
        "info --shuffle": ["info", "--shuffle", str(pack)],
        "stage": ["stage", str(pack), str(room / "whole")],
        "stage --fraction": ["stage", "--fraction", "0.5", str(pack), str(room / "part")],
        "merge": ["merge", str(pack)],
    }
    found: dict[str, Callable[[], object]] = {
        name: lambda arguments=arguments: _group.run(arguments)  # type: ignore[misc]
        for name, arguments in commands.items()
    }
    readers = {"by index": _by_index, "stream": _stream, "selection": _selection}
    for name, read in readers.items():
        found[name] = lambda read=read: read(pack)  # type: ignore[misc]
    return found


def _by_index(pack: Path) -> None:
    dataset = PackedDataset(pack, decode="numpy")
    for sample in range(len(dataset)):
        with contextlib.suppress(DamageError):
            _, label = dataset[sample]
            assert -1 <= label < len(dataset.classes)
    assert len(list(dataset.keys)) == len(dataset)


def _stream(pack: Path) -> None:
    for transform in (None, CenterCrop(32)):
        list(BatchStream(PackedDataset(pack, decode="numpy", transform=transform), 4, window=2))


def _selection(pack: Path) -> None:
    dataset = PackedDataset(pack, decode="bytes").select(fraction=0.5)
    list(BatchStream(dataset, 4, window=2, fields=["image", "label", "key"]))


def outcome(use: Callable[[], object], memory: int = MEMORY) -> str:
    """What comes of a use in a process of its own; "" if it works, or ends with one clear line.

    Args:
        use: What to do; an exit code of a command, None, or text that says what is wrong.
        memory: Bytes that it may take beyond those of this process.
    """
    with tempfile.TemporaryFile() as output:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _use(use, writing, output.fileno(), memory)
        os.close(writing)
        with open(reading, "rb") as pipe:
            told = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        text = output.read().decode(errors="surrogateescape")
    if status < 0:
        return f"ended by signal {-status}"
    what: str = pickle.loads(told) if told else f"ended with {status} and told nothing"
    return f"{what}\n{text}" if "Traceback" in text else what


def _use(use: Callable[[], object], told: int, output: int, memory: int) -> None:
    """The rest of the child's life."""
    what = "did not get to its end"
    try:
        for stream in (1, 2):
            os.dup2(output, stream)
        sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8") for n in (1, 2))  # noqa: SIM115
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory,) * 2)
        what = _told(use)
    except BaseException:
        what = traceback.format_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        os.write(told, pickle.dumps(what))
        os._exit(0)


def _told(use: Callable[[], object]) -> str:
    try:
        code = use()
    except (DamageError, UsageError) as error:
        return "" if "\n" not in str(error) else f"more than one line: {error}"
    except PackerError as error:
        return f"exit code {error.exit_code}: {error}"
    return "" if code in (None, 0, 2, 4) else str(code)


def use_all(pack: Path, room: Path) -> str:
    """What goes wrong in all uses of a pack, one after the other."""
    found = {name: _told(use) for name, use in uses(pack, room).items()}
    return "\n".join(f"{name}: {what}" for name, what in found.items() if what)


def mutated(pack: Path, work: Path, seed: int) -> Path:
    """A copy of a pack with a mutation."""
    draw = random.Random(seed)
    copy = work / "pack"
    shutil.copytree(pack, copy)
    draw.choice((mutate_manifest, mutate_index))(copy, draw)
    return copy
