"""Loader(process=…): the same mini-batches from another process, and how that ends."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from packer.errors import DamagedSample, UsageError, WorkerError
from packer.reader import BatchStream, Loader, PackedDataset
from packer.reader.loader import Process
from packer.reader.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop
from packer.types import Array
from tests.packs import BuildPack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS = [[4, 0, 4], [3], [4]]
FIELDS = ("key", "image", "note", "label")
RANDOM = [RandomResizedCrop(5), RandomHorizontalFlip(), Normalize((0.5, 0.4, 0.3), (1, 2, 3))]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert [child.name for child in multiprocessing.active_children()] == []


def to_tensor(pixels: Array) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def assert_same(loader: Any, stream: Any) -> None:
    left, right = list(loader), list(stream)
    assert len(left) == len(right) > 0
    for one, other in zip(left, right, strict=True):
        assert one._fields == other._fields
        for ours, theirs in zip(one, other, strict=True):
            if isinstance(ours, torch.Tensor):
                assert torch.equal(ours, theirs)
                assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
            elif isinstance(ours, list) and isinstance(ours[0], torch.Tensor):
                assert all(map(torch.equal, ours, theirs))
            else:
                assert ours == theirs


@pytest.mark.parametrize(
    ("method", "transform", "sizes"),
    [
        ("fork", RANDOM, [(8, 6)]),
        ("fork", None, [(8, 6), (5, 7)]),
        ("fork", [to_tensor], [(8, 6)]),
        ("spawn", RANDOM, [(8, 6)]),
        ("forkserver", [RandomResizedCrop(4), to_tensor], [(8, 6)]),
    ],
)
def test_the_same_mini_batches(
    build_pack: BuildPack, method: Process, transform: Any, sizes: Any
) -> None:
    built = build_pack(SHARDS, "tar", "jpeg", extra=True, sizes=sizes)
    dataset = PackedDataset(built.root, transform=transform, decode="numpy")
    options: dict[str, Any] = {"window": 2, "tail": "keep", "fields": FIELDS}
    loader = Loader(dataset, batch_size=3, threads=2, process=method, **options)
    stream = BatchStream(dataset, 3, **options)
    for epoch in (0, 3):
        loader.set_epoch(epoch)
        stream.set_epoch(epoch)
        assert_same(loader, stream)
    loop = iter(loader)
    next(loop)
    state = loader.state_dict()  # what was handed out, not what the process has made
    del loop
    for resumed in (loader, stream):
        resumed.load_state_dict(state)
    assert_same(loader, stream)


def test_one_process_for_many_epochs_and_loops(build_pack: BuildPack) -> None:
    """Left early, two at once, and all tensors kept."""
    built = build_pack([[8] * 4])
    loader = Loader(built.root, batch_size=2, process="fork", fields=("key", "image"))
    held = []
    for stop in range(6):
        for number, (keys, images) in enumerate(loader):
            held.append((keys, images))
            if number == 3 * stop:
                break
    pairs = list(zip(loader, loader, strict=True))
    assert len(pairs) == 16
    for epoch in zip(*pairs, strict=True):  # two of them
        assert sorted(key for keys, _ in epoch for key in keys) == sorted(built.keys)
        held += epoch
    (process,) = multiprocessing.active_children()
    for keys, images in held:
        for key, image in zip(keys, images, strict=True):
            pixels = built.pixels[built.keys.index(key)]
            assert np.array_equal(image.permute(1, 2, 0), pixels)
    loader.close()
    assert not process.is_alive()
    assert len(list(loader)) == 16  # by a new one
    assert multiprocessing.active_children() != [process]


@pytest.mark.parametrize("process", [False, "fork"])
def test_a_loop_outlives_its_loader(build_pack: BuildPack, process: bool | Process) -> None:
    loop = iter(Loader(build_pack([[8] * 4]).root, batch_size=2, process=process))
    gc.collect()
    assert len(list(loop)) == 16


def fail(pixels: Array) -> Array:
    raise ZeroDivisionError("on purpose")


def test_errors_keep_their_type(build_pack: BuildPack) -> None:
    built = build_pack([[8]])
    dataset = PackedDataset(built.root, transform=fail, decode="numpy")
    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        list(Loader(dataset, batch_size=2, process="fork"))
    cause = str(caught.value.__cause__)
    assert "in fail" in cause
    assert "image of 'class" in cause


def test_damage_is_gone_around_and_listed_here(build_pack: BuildPack) -> None:
    built = build_pack([[4, 4]], sizes=[(96, 64)])
    shard = built.shard(0)
    index = PackedDataset(built.root).pack.index
    data = bytearray(shard.read_bytes())
    data[int(index["image.offset"][5] + index["image.size"][5] // 2)] ^= 0xFF
    shard.write_bytes(data)
    options: dict[str, Any] = {"shuffle": "none", "fields": ["key"], "process": "fork"}
    loader = Loader(built.root, batch_size=4, **{**options, "fields": ["key", "image"]})
    with pytest.raises(DamagedSample, match=r"0/5\.v1\.jpg") as caught:
        list(loader)
    assert caught.value.sample == 5
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from packer.reader import Loader\n"
        f"loader = Loader({str(built.root)!r}, batch_size=4, on_error='skip', process='fork')\n"
        "assert len(list(loader)) == 2\n"
        "print([entry.sample for entry in loader.skipped])\n"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[5]\n"


def test_a_killed_process_is_an_error_and_the_next_loop_goes_on(build_pack: BuildPack) -> None:
    """A killed helper process must not hang the loop."""
    built = build_pack([[8] * 4])
    loader = Loader(built.root, batch_size=2, process="fork")
    loop = iter(loader)
    next(loop)
    (process,) = multiprocessing.active_children()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        list(loop)
    assert len(list(loader)) == 16


def test_arguments_that_cannot_be(build_pack: BuildPack) -> None:
    root = build_pack([[4]]).root
    with pytest.raises(UsageError, match="cannot be pinned"):
        Loader(root, batch_size=2, process=True, pin_memory=True)
    with pytest.raises(UsageError, match="process 'thread'"):
        Loader(root, batch_size=2, process="thread")  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", ["the end", "a break", "an error", "two loops"])
def test_process_and_memory_go_with_the_loader(build_pack: BuildPack, ending: str) -> None:
    """Without waiting for Python's collector of cycles."""

    def fail(pixels: Array) -> Array:
        if ending == "an error":
            raise ValueError("no")
        return pixels

    def train() -> int:
        transform = None if ending != "an error" else [fail]
        dataset = PackedDataset(build_pack([[8] * 4]).root, transform=transform)
        loader = Loader(dataset, batch_size=2, threads=2, process="fork")
        child = -1
        with contextlib.suppress(ValueError):
            for number, _ in enumerate(loader):
                child = loader._remote._process.pid if loader._remote else -1
                if number == 3 and ending != "the end":
                    break
            if ending == "two loops":
                next(iter(loader))
        return child

    def shared_maps() -> int:
        maps = Path("/proc/self/maps")
        return maps.read_text().count("/memfd:packer") if sys.platform == "linux" else 0

    gc.collect()
    gc.disable()
    before = shared_maps()
    try:
        child = train()
        assert ending == "an error" or gone(child)
        assert multiprocessing.active_children() == []
        assert shared_maps() <= before
    finally:
        gc.enable()


SCRIPT = """
import os, sys, time
from packer.reader import Loader

pictures = 0

def slow(image):
    global pictures
    pictures += 1
    time.sleep(600 if pictures == {stuck} else 0.05)
    return image

def fork_one():
    sibling = os.fork()
    if sibling:
        print(sibling, flush=True)
    time.sleep(600)

def main():
    from packer.reader import PackedDataset
    dataset = PackedDataset({root!r}, transform=slow, decode="numpy")
    loader = Loader(dataset, batch_size=2, threads=1, process={method!r})
    while True:
        for batch in loader:
            print("child", loader._remote._process.pid, flush=True)
            {ending}

if __name__ == "__main__":
    main()
"""


def begun(tmp_path: Path, root: Path, method: str, ending: str, stuck: int = 0) -> tuple[Any, int]:
    """A program in the middle of its loop, and the process that reads for it, whose transform takes
    ten minutes for picture number `stuck`.
    """
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(root=str(root), method=method, ending=ending, stuck=stuck))
    program = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line.startswith("child"), program.communicate()
    return program, int(line.split()[1])


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not gone(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_process_ends_with_its_parent(
    build_pack: BuildPack, tmp_path: Path, method: str
) -> None:
    program, child = begun(tmp_path, build_pack([[8] * 4]).root, method, "pass")
    program.kill()
    program.communicate(timeout=30)
    wait_until_gone(child)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_it_ends_with_its_parent_whatever_its_threads_wait_for(
    build_pack: BuildPack, tmp_path: Path, method: str
) -> None:
    program, child = begun(tmp_path, build_pack([[8] * 4]).root, method, "pass", stuck=8)
    time.sleep(0.5)  # until picture 8
    program.kill()
    program.communicate(timeout=30)
    wait_until_gone(child)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_ends_with_its_parent_while_a_sibling_lives(
    build_pack: BuildPack, tmp_path: Path, method: str
) -> None:
    """A forked child of the training process has copies of all ends of its pipes."""
    ending = "fork_one()"
    program, child = begun(tmp_path, build_pack([[8] * 4]).root, method, ending)
    sibling = int(program.stdout.readline())
    try:
        program.kill()
        program.wait(30)
        wait_until_gone(child)
        assert not gone(sibling)
    finally:
        os.kill(sibling, signal.SIGKILL)
        program.communicate(timeout=30)


def test_a_loop_in_threads_of_this_process_forbids_a_fork(build_pack: BuildPack) -> None:
    """Side by side in one zip: the forked process waited for ever for a lock."""
    root = build_pack([[8] * 4]).root
    loop = iter(Loader(root, batch_size=2))
    next(loop)
    with pytest.raises(UsageError, match="'packer-read"):
        next(iter(Loader(root, batch_size=2, process="fork")))
    assert len(list(Loader(root, batch_size=2, process=True))) == 16
    assert len(list(loop)) == 15
    assert len(list(Loader(root, batch_size=2, process="fork"))) == 16


def test_ctrl_c_is_the_training_loops_alone(build_pack: BuildPack, tmp_path: Path) -> None:
    program, child = begun(tmp_path, build_pack([[8] * 4]).root, "spawn", "pass")
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    _, said = program.communicate(timeout=30)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert said.count("Traceback") == 1
    assert program.returncode in (-signal.SIGINT, 130)
    wait_until_gone(child)


def test_the_interpreter_shuts_down(build_pack: BuildPack, tmp_path: Path) -> None:
    program, child = begun(tmp_path, build_pack([[8] * 4]).root, "fork", "sys.exit(0)")
    assert program.communicate(timeout=30) == ("", "")
    assert program.returncode == 0
    wait_until_gone(child)


def test_nothing_grows_over_100_epochs(build_pack: BuildPack) -> None:
    """Open files and memory, on both sides."""
    built = build_pack([[8, 8]], "tar", "jpeg", sizes=[(320, 240)])
    loader = Loader(built.root, batch_size=4, threads=2, process="fork")

    def epochs(first: int, last: int) -> tuple[int, ...]:
        for epoch in range(first, last):
            loader.set_epoch(epoch)
            assert sum(len(labels) for _, labels in loader) == 16
        gc.collect()
        (child,) = multiprocessing.active_children()
        pids = [os.getpid(), child.pid]
        return tuple(files(pid) for pid in pids) + tuple(resident(pid) for pid in pids)

    start, end = epochs(0, 20), epochs(20, 120)
    assert end[:2] == start[:2]
    # An epoch's pictures have 3.7 MB.
    assert max(end[2] - start[2], end[3] - start[3]) < 6e6


def files(pid: int | None) -> int:
    """Open files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident(pid: int | None) -> int:
    """Bytes of memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
