"""Make and run inputs that are files of a pack, whole or unfinished.

What is sealed by checksums is changed as an attacker does, who computes them anew. Such an input is
a JSON list of edits, so that it means the same for a pack that was made with other libraries.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.change import NUMBERS, Edit, apply_edits, change_bytes, draw_edits
from fuzzing.pictures import seed_picture
from packer import registry
from packer.cli._group import packer
from packer.cli._reporter import Running
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import PackerError
from packer.merge import merge_pack
from packer.pack import manifest as manifests
from packer.pack.index import IndexFile, encode_index
from packer.pack.manifest import read_manifest
from packer.pack.opened import Pack
from packer.pack.payloads import Payloads
from packer.packing.holder import myself, read_holder
from packer.packing.lock import Lock, Timing
from packer.packing.shards.shard import WORK_FOLDER
from packer.verify import VerifyOptions, verify_pack

_PREFIX = struct.Struct("<8sQII")
_FORMATS = ("tar", "lmdb", "hdf5")
#: Names of kinds → the file of an unfinished pack that they change.
WORK = {"plan": "plan.json", "state": "train-000001.json", "parts": "parts.json"}


class Packs:
    """Small packs to start from, made once.

    Args:
        folder: Folder for the packs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        photos = folder / "photos"
        pictures = itertools.cycle(seed_picture("jpeg"))
        for number, data in zip(range(18), pictures, strict=False):
            path = photos / f"c{number % 2}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if number else b"no picture")
        for name in _FORMATS:
            _convert(photos, folder / name, name)
        for part in (0, 1):
            _convert(photos, folder / f"part{part}", "tar", (part, 2))
        self.unfinished = shutil.copytree(folder / "part0", folder / "unfinished")
        shutil.copytree(folder / "part1", self.unfinished, dirs_exist_ok=True)
        self._indexes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def seed_manifest(self) -> list[bytes]:
        """Return the manifests' bytes."""
        return [(self.folder / name / manifests.NAME).read_bytes() for name in _FORMATS]

    def seed_index(self) -> list[bytes]:
        """Return the indexes' bytes."""
        return [(self.folder / name / "train.index").read_bytes() for name in _FORMATS]

    def seed_work(self, kind: str) -> list[bytes]:
        """Return the bytes of a file of the unfinished pack."""
        return [(self.unfinished / WORK_FOLDER / WORK[kind]).read_bytes()]

    def change_manifest(self, rng: random.Random, data: bytes) -> bytes:
        """Draw edits of a manifest, whose checksum is computed anew."""
        return json.dumps(draw_edits(rng, json.loads(data))).encode()

    def change_index(self, rng: random.Random, data: bytes) -> bytes:
        """Draw edits of an index: of its header, or of values in its arrays, with right
        checksums.
        """
        header = json.loads(_header(data))
        if rng.random() < 0.3:
            return json.dumps({"header": draw_edits(rng, header)}).encode()
        names = [entry["name"] for entry in header["arrays"]]
        return json.dumps({"arrays": [_draw_place(rng, names) for _ in range(3)]}).encode()

    def run_manifest(self, data: bytes, folder: Path) -> None:
        """Use a pack whose manifest has these bytes."""
        self._use(folder, data, manifests.NAME, data)

    def run_sealed_manifest(self, data: bytes, folder: Path) -> None:
        """Use a pack whose manifest has these edits and a right checksum."""
        text = (self.folder / _format(data) / manifests.NAME).read_text(encoding="utf-8")
        value = apply_edits(text, json.loads(data))
        value.pop("sha256", None)
        self._use(folder, data, manifests.NAME, manifests.seal(value))

    def run_index(self, data: bytes, folder: Path) -> None:
        """Use a pack whose index has these bytes."""
        self._use(folder, data, "train.index", data)

    def run_sealed_index(self, data: bytes, folder: Path) -> None:
        """Use a pack whose index has these edits and right checksums."""
        edits = json.loads(data)
        index = IndexFile(self.folder / _format(data) / "train.index")
        arrays = {name: np.array(index[name]) for name in index.names()}
        for name, place, number in edits.get("arrays", ()):
            flat = arrays[name].reshape(-1)
            if len(flat):
                width = 8 * flat.itemsize
                unsigned = flat.view(f"<u{flat.itemsize}")
                unsigned[place % len(flat)] = number % (1 << width)
        out = encode_index(arrays, index.meta)
        if "header" in edits:
            out = _with_header(out, edits["header"])
        self._use(folder, data, "train.index", out)

    def run_work(self, kind: str, data: bytes, folder: Path) -> None:
        """Join the parts of an unfinished pack, one of whose files has these bytes."""
        out = folder / "pack"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.unfinished, out)
        (out / WORK_FOLDER / WORK[kind]).write_bytes(data)
        merge_pack(out)
        if kind == "state":  # a plan may be another valid one, but a state must match it
            try:
                _read_pack(out)
            except PackerError as error:
                raise AssertionError("a joined pack cannot be read") from error

    def _use(self, folder: Path, data: bytes, name: str, content: bytes) -> None:
        """Write a file of a pack and run all code that reads it; then restore the file."""
        source = self.folder / _format(data)
        pack = folder / source.name
        if not pack.exists():
            shutil.copytree(source, pack)
        (pack / name).write_bytes(content)
        try:
            _read_pack(pack)
        finally:
            shutil.copyfile(source / name, pack / name)


def run_lock(data: bytes, folder: Path) -> None:
    """Take a lock while a lock file with these bytes exists."""
    holder = read_holder(data)
    if holder is not None:
        str(holder)
        if holder.is_here():
            holder.lives_here()
    path = folder / "lock-all"
    path.write_bytes(data)
    try:
        with Lock(folder, None, timing=Timing(renew=0.001, patience=2, first=2)):
            pass
    finally:
        for left in folder.glob("lock-*"):
            left.unlink()


def seed_lock() -> list[bytes]:
    """Return the contents of locks."""
    return [
        myself().to_bytes(),
        myself("job 17").to_bytes().replace(b'"kernel": "', b'"kernel": "x'),
    ]


def change_json(rng: random.Random, data: bytes) -> bytes:
    """Change a JSON file: as text, or its values."""
    if rng.random() < 0.3:
        tokens = (b"null", b"[", b"{", b"[" * 3000, b'"', b"-", b"1e999", b"NaN", b"9" * 5000)
        return change_bytes(rng, data, tokens)
    return json.dumps(apply_edits(data.decode(), draw_edits(rng, json.loads(data)))).encode()


def _convert(photos: Path, out: Path, form: str, part: tuple[int, int] | None = None) -> None:
    # Threads may not be left in a process that forks.
    options = ConvertOptions(
        resize="24x24", resize_mode="exact", batch_size=4, shard_size=1_300, format=form,
        jobs=1, backend="sequential", part=part,
    )  # fmt: skip
    convert_dataset(photos, out, options)


def _format(data: bytes) -> str:
    return _FORMATS[zlib.crc32(data) % len(_FORMATS)]


def _read_pack(pack: Path) -> None:
    for name in read_manifest(pack).splits:
        payloads = Payloads(Pack(pack, name))
        index, image = payloads.pack.index, payloads.pack.stored_fields()[0]
        payloads.dense()
        samples = np.arange(len(payloads.pack))
        codec = next(e.codec for e in payloads.pack.manifest.fields if e.kind == "image")
        for sample, payload in zip(samples.tolist(), payloads.read(samples, image), strict=True):
            payloads.pack.key(sample)
            width, height = (int(index[side][sample]) for side in ("width", "height"))
            if payload is not None:
                registry.load("codecs", str(codec)).decode(payload, width, height)
        for batch in range(len(index["batch_count"])):
            payloads.span(batch)
    for arguments in (["info", "--json"], ["info"], ["ls", "--note", "turned"], ["ls"]):
        packer.main([*arguments, str(pack)], "packer", standalone_mode=False, obj=Running())
    verify_pack(pack, VerifyOptions(decode=True, jobs=1, backend="sequential"))


def _draw_place(rng: random.Random, names: list[str]) -> Edit:
    return [rng.choice(names), rng.randrange(1 << 16), rng.choice((*NUMBERS, rng.randrange(9999)))]


def _header(data: bytes) -> bytes:
    _, length, _, _ = _PREFIX.unpack_from(data)
    return data[_PREFIX.size : _PREFIX.size + length]


def _with_header(data: bytes, edits: list[Edit]) -> bytes:
    """An index with an edited header; too long a header is cut where the arrays begin."""
    before = _header(data)
    header = json.dumps(apply_edits(before.decode(), edits), sort_keys=True).encode()
    room = min(entry["offset"] for entry in json.loads(before)["arrays"]) - _PREFIX.size
    header = header[:room]
    prefix = _PREFIX.pack(b"PACKIDX1", len(header), zlib.crc32(header), 0)
    return prefix + header.ljust(room, b"\0") + data[_PREFIX.size + room :]
