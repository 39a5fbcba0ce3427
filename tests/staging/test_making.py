"""Staging: real copies, processes and kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from packer.errors import DamageError, OutputError
from packer.files.fsio import sha256_file
from packer.files.space import Space
from packer.reader import BatchStream, PackedDataset
from packer.reporting import Reporter
from packer.staging import making
from packer.staging.excerpt import StageOptions
from packer.staging.making import copy_pack, find_staged, stage_split
from packer.verify import VerifyOptions, verify_pack
from tests.packs import BuildPack, PackOptions

pytestmark = pytest.mark.slow

SEQUENTIAL = VerifyOptions(backend="sequential")
#: Shards of about 150 KB, one of 80.
SHARDS: PackOptions = {"shards": [[8, 8], [8, 8], [8]], "sizes": [(64, 40)]}

#: Stages argv[1] to argv[2], each read slowed by argv[3] seconds; prints bytes read and the path.
_SCRIPT = """
import json, sys, time
from pathlib import Path
from packer.staging import copying
from packer.staging.making import copy_pack
from packer.staging.excerpt import StageOptions
from packer.reporting import Reporter

copying.COPY_BYTES = 10_000
real, total = copying._read, [0]

def read(copy, source, buffer, offset):
    time.sleep(float(sys.argv[3]))
    got = real(copy, source, buffer, offset)
    total[0] += got
    return got

copying._read = read
print("ready", flush=True)
sys.stdin.readline()

class Ear(Reporter):
    def note(self, text):
        print(text, flush=True)

path = copy_pack(sys.argv[1], sys.argv[2], StageOptions(jobs=1), Ear())
print(json.dumps([total[0], str(path)]))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(root, dest, seconds)` → a process that stages once it is told to `go`."""
    processes = []

    def run(root: Path, dest: Path, seconds: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SCRIPT, str(root), str(dest), str(seconds)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def go(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def result(process: subprocess.Popen[str]) -> tuple[int, Path]:
    assert process.stdout is not None
    *_, last = process.stdout.read().splitlines()
    assert process.wait(timeout=60) == 0
    read, path = json.loads(last)
    return read, Path(path)


def files(folder: Path) -> dict[str, str]:
    return {path.name: sha256_file(path) for path in folder.rglob("*") if path.is_file()}


def wait_for(condition: Callable[[], Any]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("did not happen")


def test_the_copy_is_the_pack(build_pack: BuildPack, tmp_path: Path, format_name: str) -> None:
    built = build_pack(**SHARDS, format_name=format_name)
    copy = copy_pack(built.root, tmp_path / "new" / "disk")
    assert copy.parent == tmp_path / "new" / "disk"
    assert files(copy) == files(built.root)
    assert not (copy / ".staging").exists()
    before = {path: path.stat().st_mtime_ns for path in (*copy.iterdir(), copy)}
    assert copy_pack(built.root, tmp_path / "new" / "disk") == copy
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_state_goes_on_from_a_copy(build_pack: BuildPack, tmp_path: Path) -> None:
    """The split's index is the same file, so it is the same sequence."""
    root = build_pack(**SHARDS).root
    stream = BatchStream(PackedDataset(root, decode="bytes"), 4, fields=("key",))
    walk = iter(stream)
    next(walk)
    state = stream.state_dict()
    rest = [list(batch.key) for batch in walk]
    staged = PackedDataset(root, stage=tmp_path / "disk", decode="bytes")
    assert staged.root != str(root)
    other = BatchStream(staged, 4, fields=("key",))
    other.load_state_dict(state)
    assert [list(batch.key) for batch in other] == rest


def test_an_excerpt_is_a_pack(build_pack: BuildPack, tmp_path: Path, format_name: str) -> None:
    built = build_pack(**SHARDS, format_name=format_name, extra=True)
    copy = copy_pack(built.root, tmp_path / "disk", StageOptions(fraction=0.3))
    assert verify_pack(copy, SEQUENTIAL).damage == []
    dataset = PackedDataset(copy, decode="bytes")
    assert list(dataset.keys) == built.keys[:16]
    assert dataset.targets.tolist() == built.labels[:16]
    assert [dataset[n][0] for n in range(16)] == [s.payloads["image"] for s in built.samples[:16]]
    assert dataset.classes == PackedDataset(built.root).classes


def test_excerpts_share_their_shards(build_pack: BuildPack, tmp_path: Path) -> None:
    """Nothing lies twice in memory, and each goes by itself."""
    built = build_pack(**SHARDS)
    dest = tmp_path / "disk"
    half = copy_pack(built.root, dest, StageOptions(fraction=0.3))
    read: list[int] = []

    class Ear(Reporter):
        def progress(self, progress: Any) -> None:
            read.append(progress.read)

    whole = copy_pack(built.root, dest, None, Ear())
    assert (whole / "train-000000.tar").samefile(half / "train-000000.tar")
    assert (
        read[-1]
        < sum(path.stat().st_size for path in whole.iterdir()) - built.shard(0).stat().st_size
    )
    for path in half.iterdir():
        path.unlink()
    assert verify_pack(whole, SEQUENTIAL).damage == []


def test_many_at_once_read_it_once(build_pack: BuildPack, tmp_path: Path, start: Start) -> None:
    built = build_pack(**SHARDS)
    processes = [start(built.root, tmp_path / "disk", 0.01) for _ in range(4)]
    go(*processes)
    found = [result(process) for process in processes]
    assert len({path for _, path in found}) == 1
    copy = found[0][1]
    assert files(copy) == files(built.root)
    # The manifest is not copied but written.
    copied = sum(path.stat().st_size for path in copy.iterdir() if path.name != "manifest.json")
    assert sorted(read for read, _ in found) == [0, 0, 0, copied]
    assert not (copy / ".staging").exists()


def test_a_killed_process_is_taken_over(
    build_pack: BuildPack, tmp_path: Path, start: Start
) -> None:
    """After a kill, whole shards are kept, a half file is not, and no process waits for the dead
    one.
    """
    built = build_pack(**SHARDS)
    killed = start(built.root, tmp_path / "disk", 0.1)
    waiting = start(built.root, tmp_path / "disk", 0)
    go(killed)
    wait_for(lambda: list((tmp_path / "disk").glob("*/.staging/train-000001.tar*.tmp")))
    [first] = (tmp_path / "disk").glob("*/train-000000.tar")
    before = first.stat()
    go(waiting)
    assert waiting.stdout is not None
    assert waiting.stdout.readline().startswith("waiting for another process")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    read, copy = result(waiting)
    assert files(copy) == files(built.root)
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    total = sum(path.stat().st_size for path in copy.iterdir() if path.suffix != ".json")
    assert 0 < read <= total - before.st_size


def test_what_was_damaged_half_way_is_copied_again(build_pack: BuildPack, tmp_path: Path) -> None:
    """A power cut may leave anything: without a manifest, SHA-256 tells what is whole."""
    built = build_pack(**SHARDS)
    copy = copy_pack(built.root, tmp_path)
    (copy / "manifest.json").unlink()
    data = bytearray((copy / "train-000001.tar").read_bytes())
    data[50_000] ^= 1
    (copy / "train-000001.tar").write_bytes(data)
    (copy / "train-000002.tar").write_bytes(b"short")
    kept = (copy / "train-000000.tar").stat().st_ino
    assert copy_pack(built.root, tmp_path) == copy
    assert files(copy) == files(built.root)
    assert (copy / "train-000000.tar").stat().st_ino == kept


@pytest.mark.parametrize("name", ["train-000001.tar", "train.index", "manifest.json"])
def test_what_somebody_removed_is_copied_again(
    build_pack: BuildPack, tmp_path: Path, name: str
) -> None:
    built = build_pack(**SHARDS)
    copy = copy_pack(built.root, tmp_path)
    (copy / name).unlink()
    copy_pack(built.root, tmp_path)
    assert files(copy) == files(built.root)


@pytest.mark.parametrize("name", ["train-000001.tar", "train-000001.index", "train.index"])
def test_damage_is_named_and_not_staged(build_pack: BuildPack, tmp_path: Path, name: str) -> None:
    """A damaged shard is exit 4 with its name; the finished shards stay for the next try."""
    built = build_pack(**SHARDS)
    path = built.root / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-100] + bytes(byte ^ 1 for byte in whole[-100:]))
    with pytest.raises(DamageError, match=name):
        copy_pack(built.root, tmp_path / "disk", StageOptions(jobs=1))
    [copy] = (tmp_path / "disk").iterdir()
    assert "train-000000.tar" in files(copy)
    assert {name, "manifest.json"} & files(copy).keys() == set()
    path.write_bytes(whole)
    copy_pack(built.root, tmp_path / "disk")
    assert files(copy) == files(built.root)


def test_too_little_room_is_said_before_anything_is_read(
    build_pack: BuildPack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_pack(**SHARDS)
    half = copy_pack(built.root, tmp_path / "disk", StageOptions(fraction=0.3))
    monkeypatch.setattr(making, "free_space", lambda folder: Space(5000, "a wall"))
    with pytest.raises(OutputError) as caught:
        copy_pack(built.root, tmp_path / "disk")
    needed, free, there, total = _numbers(caught.value.message)
    assert free == 5000
    assert there == built.shard(0).stat().st_size  # linked from the excerpt
    assert needed + there == total
    assert "limit: a wall" in caught.value.message
    assert [path for path in (tmp_path / "disk").iterdir() if path != half] == []


def _numbers(message: str) -> tuple[int, int, int, int]:
    """Needed, free, there, total."""
    words = message.split(": ", 1)[1].replace(",", "").replace(")", "").split()
    needed, free, there, total = (int(word) for word in words if word.isdigit())
    return needed, free, there, total


def test_a_split_is_found_in_the_whole_pack(build_pack: BuildPack, tmp_path: Path) -> None:
    root = build_pack(**SHARDS).root
    assert find_staged(root, tmp_path, "train") is None
    whole = copy_pack(root, tmp_path)
    assert stage_split(root, tmp_path, "train") == whole == find_staged(root, tmp_path, "train")


def test_a_pack_made_anew_is_staged_anew(build_pack: BuildPack, tmp_path: Path) -> None:
    first = build_pack(**SHARDS, name="a/pack").root
    second = build_pack(**SHARDS, seed=1, name="b/pack").root
    copies = [copy_pack(root, tmp_path / "disk") for root in (first, second)]
    assert files(copies[0]) == files(first)
    assert files(copies[1]) == files(second)


def test_a_file_in_the_way(build_pack: BuildPack, tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("")
    with pytest.raises(OutputError, match="a file is in the way"):
        copy_pack(build_pack(**SHARDS).root, tmp_path / "disk")
