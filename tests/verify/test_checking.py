import contextlib
import dataclasses
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from packer import registry
from packer.cli._group import packer
from packer.convert import ConvertOptions, convert_dataset
from packer.errors import DamageError, SourceError
from packer.input import open_input
from packer.pack.index import IndexFile
from packer.pack.manifest import seal
from packer.reader import PackedDataset
from packer.reporting import Progress, Reporter
from packer.verify import VerifyOptions, verify_pack
from packer.verify.subset import Subset
from tests.fixtures import MakeTree

JOBS = {"jobs": 1}


@pytest.fixture(params=registry.names("formats"))
def pack(tmp_path: Path, make_tree: MakeTree, request: pytest.FixtureRequest) -> Path:
    options = ConvertOptions(
        resize="48", batch_size=4, shard_size=8_000, jobs=1, format=request.param
    )
    convert_dataset(make_tree(classes=2, each=12), tmp_path / "pack", options)
    return tmp_path / "pack"


def _shard(pack: Path, number: int = 0) -> Path:
    [found] = [
        p for p in pack.glob(f"train-{number:06d}.*") if p.suffix in (".tar", ".lmdb", ".h5")
    ]
    return found


def _verify(pack: Path, decode: bool = False) -> list[str]:
    return verify_pack(pack, VerifyOptions(decode=decode, jobs=1)).damage


def test_a_whole_pack_has_no_damage(pack: Path) -> None:
    result = verify_pack(pack, VerifyOptions(decode=True, jobs=2))
    assert result.damage == []
    assert result.samples == result.decoded == 24
    assert result.shards > 1


def test_a_flipped_byte_names_shard_and_sample(pack: Path) -> None:
    index = IndexFile(pack / "train.index")
    offset = int(index["image.offset"][2] + index["image.size"][2] // 2)
    with _shard(pack).open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x55]))
    damage = _verify(pack)
    assert f"{_shard(pack)}: its SHA-256 differs" in damage
    assert len(damage) >= 2  # a byte within the fingerprint refuses the whole shard


def test_missing_cut_and_long_shards_are_all_named(pack: Path) -> None:
    """A truncated last shard must be found, and so must all others."""
    first, second, third = (_shard(pack, number) for number in range(3))
    first.unlink()
    os.truncate(second, second.stat().st_size - 1024)
    with third.open("ab") as file:
        file.write(b"more")
    damage = "\n".join(_verify(pack))
    assert f"{first}: missing" in damage
    assert f"{second}: has" in damage
    assert f"{third}: has" in damage


def test_swapped_index_is_named(pack: Path, tmp_path: Path) -> None:
    """An index exchanged for another shard's must be found."""
    index = pack / "train.index"
    data = bytearray(index.read_bytes())
    data[-1] ^= 1
    index.write_bytes(bytes(data))
    assert any("train.index" in line and "SHA-256" in line for line in _verify(pack))


def test_every_file_of_a_pack_is_compared(pack: Path) -> None:
    """The ledger, the card, and what lies beside tar shards for other readers, too."""
    names = sorted(path.name for path in pack.iterdir() if path.name != "manifest.json")
    assert {"skipped.jsonl", "README.md", "train.index", "train-000000.index"} <= set(names)
    for name in names:
        data = (pack / name).read_bytes()
        (pack / name).write_bytes(data + b"\n")
        assert [line for line in _verify(pack) if f"{pack / name}: has {len(data) + 1}" in line]
        (pack / name).unlink()
        assert f"{pack / name}: missing" in _verify(pack)
        (pack / name).write_bytes(data)
    assert _verify(pack) == []


def test_a_pack_that_no_reader_opens_is_damaged(pack: Path) -> None:
    """Whoever sealed the manifest: it is opened as a reader does."""
    value = json.loads((pack / "manifest.json").read_bytes())
    del value["sha256"]
    for name in ("classes", "display_names"):
        value[name] = value[name][:1]
    (pack / "manifest.json").write_bytes(seal(value))
    assert _verify(pack) == [f"{pack / 'train.index'}: label 1 is none of 1 class"]


def _flips(data: bytes, count: int) -> Iterator[bytes]:
    """Copies of `data` with one bit changed, at random places."""
    draw = random.Random(len(data))
    for place in draw.sample(range(len(data)), count):
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        yield bytes(changed)


def _read_all(pack: Path) -> list[object]:
    dataset = PackedDataset(pack, "train", decode="bytes")
    samples = [dataset[number] for number in range(len(dataset))]
    return [dataset.classes, list(dataset.keys), list(dataset.targets), samples]


@pytest.mark.parametrize("name", ["train.index", "train-000000.index"])
def test_a_changed_bit_of_an_index_is_found(pack: Path, name: str) -> None:
    """By `packer verify` always; by a reader before it gives anything that is wrong."""
    right, data = _read_all(pack), (pack / name).read_bytes()
    for changed in _flips(data, 60):
        (pack / name).write_bytes(changed)
        assert any(f"{pack / name}: " in line for line in _verify(pack))
        with contextlib.suppress(DamageError):
            assert _read_all(pack) == right


def test_a_changed_bit_of_the_manifest_is_found_by_all(pack: Path, tmp_path: Path) -> None:
    path, out = str(pack), str(tmp_path / "staged")
    source = str(tmp_path / "photos")
    commands: list[list[str]] = [
        ["verify", path, "-j", "1", "-q"],
        ["ls", path],
        ["info", path],
        ["cat", path, "001.class0/001_0001.jpg"],
        ["merge", path, "-q"],
        ["stage", path, out, "-q"],
        ["convert", source, "-o", path, "-j", "1", "-q"],
    ]
    for changed in _flips((pack / "manifest.json").read_bytes(), 40):
        (pack / "manifest.json").write_bytes(changed)
        with pytest.raises(DamageError):
            PackedDataset(pack)
        for command in commands:
            with pytest.raises(DamageError) as caught:
                packer.main(command, standalone_mode=False)
            assert caught.value.exit_code == 4


def test_touched_times_are_no_damage(pack: Path) -> None:
    for path in pack.iterdir():
        os.utime(path, ns=(1, 1))
    assert _verify(pack) == []


def test_no_pack(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        _verify(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="not a pack"):
        _verify(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DamageError, match="not a readable manifest"):
        _verify(tmp_path)


def test_against_its_source(pack: Path, tmp_path: Path) -> None:
    options = VerifyOptions(against=open_input(tmp_path / "photos"), jobs=1)
    result = verify_pack(pack, options)
    assert result.against is not None and not result.against.any
    (tmp_path / "photos" / "001.class0" / "001_0001.jpg").unlink()
    result = verify_pack(pack, options)
    assert result.against is not None and result.against.extra == ("001.class0/001_0001.jpg",)
    assert result.damage == []
    (pack / "README.md").unlink()
    assert verify_pack(pack, options).against is None  # of a damaged pack it says nothing


def _spoil_sample(pack: Path, sample: int) -> None:
    index = IndexFile(pack / "train.index")
    batch = int((index["batch_first"][1:] <= sample).sum())
    data = bytearray(_shard(pack, int(index["batch_shard"][batch])).read_bytes())
    data[int(index["image.offset"][sample] + index["image.size"][sample] // 2)] ^= 0x55
    _shard(pack, int(index["batch_shard"][batch])).write_bytes(data)


def test_parts_of_a_sample_find_all_damage_once(pack: Path) -> None:
    """Each batch is read by one of the runs; no shard as a whole."""
    _spoil_sample(pack, 13)
    results = [
        verify_pack(
            pack, VerifyOptions(jobs=1, backend="sequential", sample=Subset(part=(part, 3)))
        )
        for part in range(3)
    ]
    assert sum(result.decoded for result in results) == 24
    lines = [line for result in results for line in result.damage]
    # A shard that fits into its fingerprint is refused as a whole: then each batch of it is named.
    assert lines and not any("SHA-256" in line for line in lines)
    assert all(result.compared < result.files for result in results)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_a_sample_reads_its_share(pack: Path, share: float) -> None:
    options = VerifyOptions(jobs=1, backend="sequential", sample=Subset(share))
    result = verify_pack(pack, options)
    assert result.damage == []
    assert result.decoded == 4 * max(1, round(share * 6))


@pytest.mark.parametrize("name", ["train.index", "README.md", "skipped.jsonl", "shard"])
def test_a_sample_compares_all_but_the_shards_and_finds_missing_ones(pack: Path, name: str) -> None:
    path = _shard(pack) if name == "shard" else pack / name
    if name == "shard":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b"\n")
    options = VerifyOptions(jobs=1, backend="sequential", sample=Subset(0.01))
    assert any(path.name in line for line in verify_pack(pack, options).damage)


def test_when_the_time_is_up_nothing_new_begins(pack: Path) -> None:
    options = VerifyOptions(decode=True, jobs=1, backend="sequential", minutes=1e-9)
    result = verify_pack(pack, options)
    assert (result.damage, result.compared, result.decoded) == ([], 0, 0)
    assert result.is_stopped
    result = verify_pack(pack, dataclasses.replace(options, minutes=60))
    assert (result.damage, result.compared, result.decoded) == ([], result.files, 24)
    assert not result.is_stopped


def test_progress_is_of_the_whole_work(pack: Path) -> None:
    """Files, samples and the comparison with the source; it only grows, and ends with all."""
    heard: list[Progress] = []

    class Heard(Reporter):
        def progress(self, progress: Progress) -> None:
            heard.append(progress)

    source = open_input(str(pack.parent / "photos"))
    for options in (VerifyOptions(jobs=1), VerifyOptions(True, source, 1)):
        heard.clear()
        verify_pack(pack, options, reporter=Heard())
        assert len({progress.total for progress in heard}) == 1
        done = [progress.done for progress in heard]
        assert done == sorted(done)
        assert done[-1] >= 0.9 * heard[-1].total  # batches count with their mean size
