"""Packs in shared memory: one copy for all, gone with its last user."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from packer.errors import OutputError, PackerError, UsageError
from packer.files.space import Space, in_memory
from packer.reader import BatchStream, PackedDataset
from packer.staging import making, preload
from packer.staging.preload import SharedCopy, open_pack
from tests.packs import BuildPack, PackOptions

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
]

SHARDS: PackOptions = {"shards": [[8, 8], [8]], "sizes": [(64, 40)]}

#: Preloads argv[1] with argv[2] for shared memory, says so, and waits for a line.
_SCRIPT = """
import sys
from pathlib import Path
from packer.reader import PackedDataset
from packer.staging import preload

preload.SHARED_MEMORY = Path(sys.argv[2])
dataset = PackedDataset(sys.argv[1], decode="bytes", preload="ram")
print(dataset.root, flush=True)
sys.stdin.readline()
print(len(dataset[3][0]), flush=True)
"""


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(preload, "SHARED_MEMORY", folder)
    return folder


def copies(memory: Path) -> list[Path]:
    return sorted(memory.glob("packer-ram-*/*"))


Start = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start(memory: Path) -> Iterator[Start]:
    """`start(root)` → a process that has preloaded a pack and lives until it gets a line."""
    processes = []

    def run(root: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(root), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert int(ready(process)) > 0
    assert process.wait(timeout=30) == 0


def test_ram_goes_with_its_user(build_pack: BuildPack, memory: Path) -> None:
    built = build_pack(**SHARDS)
    dataset = PackedDataset(built.root, decode="bytes", preload="ram")
    assert copies(memory) == [Path(dataset.root)]
    assert [dataset[n][0] for n in range(24)] == [s.payloads["image"] for s in built.samples]
    keys, selected = dataset.keys, dataset.select(first=3)
    del dataset
    gc.collect()
    assert len(copies(memory)) == 1
    assert selected[2][0] == built.samples[2].payloads["image"]
    del keys, selected
    gc.collect()
    assert copies(memory) == []


def test_shm_stays(build_pack: BuildPack, memory: Path) -> None:
    """And ram uses what stays, rather than to hold the same twice."""
    root = build_pack(**SHARDS).root
    dataset = PackedDataset(root, preload="shm")
    assert Path(dataset.root).parent == memory
    assert PackedDataset(root, preload="ram").root == dataset.root
    del dataset
    gc.collect()
    assert PackedDataset(root, stage=memory).pack.root.parent == memory
    assert copies(memory) == []


def test_ranks_share_one_copy(build_pack: BuildPack, memory: Path, start: Start) -> None:
    """Those that leave early do not take it away, the last one does."""
    root = build_pack(**SHARDS).root
    ranks = [start(root) for _ in range(3)]
    [copy] = {ready(rank) for rank in ranks}
    assert copies(memory) == [Path(copy)]
    end(ranks[1])
    end(ranks[0])
    assert copies(memory) == [Path(copy)]
    end(ranks[2])
    assert copies(memory) == []


def test_a_killed_run_is_taken_over_or_cleaned_up(
    build_pack: BuildPack, memory: Path, start: Start
) -> None:
    built, other = build_pack(**SHARDS), build_pack(**SHARDS, seed=1, name="other")
    killed, neighbour = start(built.root), start(other.root)
    copy, others = Path(ready(killed)), Path(ready(neighbour))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = (copy / "train-000000.tar").stat().st_ino
    dataset = PackedDataset(built.root, preload="ram")
    assert (copy / "train-000000.tar").stat().st_ino == before
    del dataset
    gc.collect()
    assert copies(memory) == [others]
    neighbour.send_signal(signal.SIGKILL)
    neighbour.wait()
    dataset = PackedDataset(built.root, preload="ram")
    assert copies(memory) == [copy]
    del dataset
    gc.collect()
    assert copies(memory) == []


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_share_it(build_pack: BuildPack, memory: Path, context: str) -> None:
    """No bytes are pickled, and a worker that ends takes nothing away."""
    built = build_pack(**SHARDS)
    dataset = PackedDataset(built.root, decode="bytes", preload="ram")
    dataset[0]
    assert len(pickle.dumps(dataset)) < 10_000
    stream = BatchStream(dataset, 4, fields=("image",), shuffle="none")
    loader: Any = DataLoader(
        stream,
        batch_size=None,
        num_workers=2,
        multiprocessing_context=context,
    )
    wanted = [sample.payloads["image"] for sample in built.samples]
    for _ in range(2):
        assert [image for batch in loader for image in batch.image] == wanted
        assert len(copies(memory)) == 1
    del dataset, stream, loader
    gc.collect()
    assert copies(memory) == []


def test_a_fork_that_ends_takes_nothing_away(build_pack: BuildPack, memory: Path) -> None:
    dataset = PackedDataset(build_pack(**SHARDS).root, preload="ram")
    child = os.fork()
    if child == 0:
        holding = dataset.pack._holding
        assert isinstance(holding, SharedCopy)
        holding.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert copies(memory) == [Path(dataset.root)]
    dataset.pack._holding.close()  # type: ignore[attr-defined]
    assert copies(memory) == []


def test_a_copy_that_has_gone_says_so(build_pack: BuildPack, memory: Path) -> None:
    dataset = PackedDataset(build_pack(**SHARDS).root, preload="ram")
    pickled = pickle.dumps(dataset)
    del dataset
    gc.collect()
    with pytest.raises(PackerError, match="the preloaded copy has gone"):
        pickle.loads(pickled)


def test_what_does_not_fit_is_said_and_leaves_nothing(
    build_pack: BuildPack, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_pack(**SHARDS).root
    monkeypatch.setattr(making, "free_space", lambda folder: Space(1000, "the memory limit"))
    for how in preload.PRELOADS:
        with pytest.raises(OutputError, match=r"bytes are needed, 1,000 are free \(limit: the mem"):
            PackedDataset(root, preload=how)
    gc.collect()
    assert [path for path in memory.rglob("*") if path.name != f"packer-ram-{os.getuid()}"] == []


def test_what_cannot_be(
    build_pack: BuildPack, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = build_pack(**SHARDS).root
    with pytest.raises(UsageError, match=r"unknown preload 'rma'.*did you mean 'ram'"):
        PackedDataset(root, preload="rma")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give one of them"):
        open_pack(root, "train", memory, "ram")
    with pytest.raises(UsageError, match="no split 'val'"):
        PackedDataset(root, "val", preload="ram")
    monkeypatch.setattr(preload, "SHARED_MEMORY", memory / "none")
    with pytest.raises(UsageError, match="which is not here"):
        PackedDataset(root, preload="ram")


def test_a_folder_that_others_may_write_to_is_refused(build_pack: BuildPack, memory: Path) -> None:
    (memory / f"packer-ram-{os.getuid()}").mkdir()
    (memory / f"packer-ram-{os.getuid()}").chmod(0o777)
    with pytest.raises(OutputError, match="is not this user's alone"):
        PackedDataset(build_pack(**SHARDS).root, preload="ram")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs /dev/shm")
def test_in_real_memory_nothing_is_copied(build_pack: BuildPack, format_name: str) -> None:
    """Payloads are slices of the mapped file, and outlive the data set and the file's name."""
    assert in_memory(preload.SHARED_MEMORY.stat().st_dev)
    built = build_pack(**SHARDS, format_name=format_name)
    dataset = PackedDataset(built.root, preload="ram")
    root = Path(dataset.root)
    assert root.parent == Path("/dev/shm") / f"packer-ram-{os.getuid()}"
    payloads = [dataset.payloads.read([n], "image")[0] for n in range(24)]
    whole = dataset.payloads.files.read(0, 0, built.shard(0).stat().st_size)
    assert all(payload is not None and payload.readonly for payload in payloads)
    assert payloads[0] is not None
    assert payloads[0].obj is whole.obj
    assert dataset[5][0].size == (64, 40)
    del dataset, whole
    gc.collect()
    assert not root.exists()
    assert payloads == [sample.payloads["image"] for sample in built.samples]
