"""Packs that an attacker made: opening them must give one clear line, and no harm."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from packer.convert import ConvertOptions, convert_dataset
from packer.errors import DamagedSample
from packer.imaging.heads.probe import PIXEL_LIMIT, PIXELS_PER_BYTE
from packer.pack.columns import encode_shard_index
from packer.pack.index import IndexFile
from packer.pack.manifest import read_manifest, seal
from packer.packing.completion import as_draft, write_beside
from packer.reader import BatchStream, Loader, PackedDataset
from packer.reader.transforms import CenterCrop, Resize
from packer.writer import PackWriter
from tests.fixtures import MakeTree
from tests.mutating import mutated, outcome, use_all, uses

pytestmark = pytest.mark.slow

OPTIONS = ConvertOptions(resize="48", batch_size=3, shard_size=4_000, jobs=1, backend="sequential")


@pytest.fixture
def pack(tmp_path: Path, make_tree: MakeTree) -> Path:
    """Some shards, and one skipped picture."""
    tree = make_tree(classes=2, each=5)
    (tree / "001.class0" / "no.jpg").write_bytes(b"no picture")
    convert_dataset(tree, tmp_path / "whole", OPTIONS)
    return tmp_path / "whole"


def test_mutated_packs_are_answered_with_one_line(pack: Path, tmp_path: Path) -> None:
    """Manifest and index with invalid values, digests and checksums made anew, read by all that
    reads packs. The seeds are fixed: a fault that they find is found again.
    """
    for seed in range(25):
        work = tmp_path / str(seed)
        copy = mutated(pack, work, seed)
        found = outcome(partial(use_all, copy, work))
        # A shard that is missing, as the manifest has it, is only made again from the source.
        assert found in ("", "merge: 1"), f"seed {seed}: {found}"
        shutil.rmtree(work)


FILES = ("manifest.json", "skipped.jsonl", "train.index", "train-000000.index", "train-000000.tar")


@pytest.mark.parametrize("name", FILES)
def test_pipes_are_not_waited_for(pack: Path, tmp_path: Path, name: str) -> None:
    (pack / name).unlink()
    os.mkfifo(pack / name)
    for use, call in uses(pack, tmp_path / "room").items():
        found = outcome(call)
        assert "signal" not in found and "Traceback" not in found, f"{use}: {found}"
    again = partial(convert_dataset, tmp_path / "photos", pack, OPTIONS)
    assert "signal" not in outcome(lambda: str(again()) and None)


def test_a_pipe_that_the_manifest_lists_as_an_empty_file(pack: Path, tmp_path: Path) -> None:
    record = {"size": 0, "sha256": hashlib.sha256().hexdigest()}
    _reseal(pack, lambda value: value["files"].update({"skipped.jsonl": record, "x": record}))
    for name in ("skipped.jsonl", "x"):
        (pack / name).unlink(missing_ok=True)
        os.mkfifo(pack / name)
    for name in ("verify", "stage", "merge"):
        assert "signal" not in outcome(uses(pack, tmp_path / "room")[name])


def test_links_to_files_are_followed(pack: Path, tmp_path: Path) -> None:
    """As git-annex and DVC store large files; what they lead to is compared."""
    store = tmp_path / "store"
    store.mkdir()
    for path in list(pack.iterdir()):
        path.rename(store / path.name)
        path.symlink_to(store / path.name)
    found = {name: outcome(use) for name, use in uses(pack, tmp_path / "room").items()}
    assert not any(found.values()), found
    [copy] = (tmp_path / "room" / "whole").iterdir()
    assert not any(path.is_symlink() for path in copy.iterdir())


def test_a_report_that_is_a_link_is_not_copied(pack: Path, tmp_path: Path) -> None:
    """No digest of it is known: it may lead to any file of who stages the pack."""
    (tmp_path / "private").write_text("private")
    (pack / "report.html").symlink_to(tmp_path / "private")
    assert outcome(uses(pack, tmp_path / "room")["stage"]) == ""
    [copy] = (tmp_path / "room" / "whole").iterdir()
    assert not (copy / "report.html").exists()


SIDE = 4000
#: Bytes: less than the picture takes once it is decoded.
LITTLE = 32 << 20


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp"])
def test_a_payload_larger_than_the_index_says_is_not_decoded(tmp_path: Path, codec: str) -> None:
    options = ConvertOptions(codec=codec)
    with PackWriter(tmp_path / "pack", classes=["a"], options=options) as writer:
        writer.write(image=np.zeros((SIDE, SIDE, 3), np.uint8), label=0, key="1")
    _resize_in_index(tmp_path / "pack", 64)
    transforms: dict[str, Any] = {"whole": None, "crop": CenterCrop(32), "resize": Resize((32, 32))}
    for name, transform in transforms.items():
        for quality in ("exact", "fast"):
            dataset = PackedDataset(
                tmp_path / "pack", decode="numpy", transform=transform, decode_quality=quality
            )
            for read in (dataset.__getitem__, lambda _, d=dataset: list(BatchStream(d, 1))):
                found = outcome(partial(_refused, read), LITTLE)
                assert found == "", f"{name}, {quality}: {found}"


#: Pictures of a mini-batch; with the largest size that an index may give them, 34 GB.
MANY = 64


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "raw"])
def test_no_memory_is_asked_for_that_only_the_index_speaks_of(tmp_path: Path, codec: str) -> None:
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 255, (MANY, 128, 128, 3), np.uint8)
    options = ConvertOptions(codec=codec)
    with PackWriter(tmp_path / "pack", classes=["a"], options=options) as writer:
        for number, pixels in enumerate(pictures):
            writer.write(image=pixels, label=0, key=str(number))
    size = int(IndexFile(tmp_path / "pack/train-000000.index")["image.size"].min())
    most = min(PIXEL_LIMIT, size * PIXELS_PER_BYTE.get(codec, PIXEL_LIMIT))
    _resize_in_index(tmp_path / "pack", math.isqrt(most))
    transforms: dict[str, Any] = {"whole": None, "crop": CenterCrop(32), "resize": Resize((32, 32))}
    for name, transform in transforms.items():
        dataset = PackedDataset(tmp_path / "pack", decode="numpy", transform=transform)
        for way, read in _LOOPS.items():
            if way == "process" and (codec, name) != ("webp", "whole"):
                continue  # starts a process each time, and takes the same way
            found = outcome(partial(_is_damaged, read, dataset))
            assert found == "", f"{name}, {way}: {found}"


_LOOPS: dict[str, Callable[[PackedDataset], Any]] = {
    "sample": lambda dataset: dataset[0],
    "stream": lambda dataset: list(BatchStream(dataset, MANY)),
    "loader": lambda dataset: list(Loader(dataset, batch_size=MANY, threads=2)),
    "process": lambda dataset: list(Loader(dataset, batch_size=MANY, process=True)),
}


def _is_damaged(read: Callable[[PackedDataset], Any], dataset: PackedDataset) -> str | None:
    try:
        read(dataset)
    except DamagedSample:
        return None
    return "was decoded"


def _refused(read: Callable[[int], Any]) -> str | None:
    try:
        read(0)
    except DamagedSample as error:
        return None if f"{SIDE} x {SIDE} pixels, not 64 x 64" in str(error) else str(error)
    return "was decoded"


def _reseal(pack: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads((pack / "manifest.json").read_bytes())
    del value["sha256"]
    change(value)
    (pack / "manifest.json").write_bytes(seal(value))


def _resize_in_index(pack: Path, side: int) -> None:
    """Let the indexes say another size of all pictures; all digests are made anew."""
    manifest = read_manifest(pack)
    [shard] = manifest.splits["train"].shards
    index = IndexFile(pack / "train-000000.index")
    arrays = {name: index[name].copy() for name in index.names()}
    arrays["width"][:] = arrays["height"][:] = side
    (pack / "train-000000.index").write_bytes(encode_shard_index(arrays, shard))

    def write(name: str, data: bytes) -> None:
        (pack / name).write_bytes(data)

    write_beside(pack, as_draft(manifest), b"", write)
