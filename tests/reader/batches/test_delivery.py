"""Mini-batches that a DataLoader worker cannot hand over: real workers, real small memory."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from packer.errors import OutputError, WorkerError
from packer.reader import BatchStream, MixedStream, PackedDataset
from packer.reader.images.decoding import Decode
from tests.packs import BuildPack

pytestmark = [
    # More workers than cores are slow, and here that is all they are.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    # Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
    pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning"),
    # What torchdata's loader calls of torch.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

#: torchdata has no types.
StatefulDataLoader: Any = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
#: Bytes of a file that a worker may write: less than a mini-batch of 24 pictures of 100×100 has.
LIMIT = 64 << 10
SIZES = [(100, 100)]


def stack(batch: Any) -> Any:
    """Makes large tensors of what came in small pieces."""
    return torch.stack([torch.zeros(64, 64, 3) for _ in range(len(batch[-1]))])


def of_pictures(samples: Any) -> Any:
    return torch.stack([torch.from_numpy(np.array(image)) for image, _ in samples])


def loops(root: Path, **more: Any) -> dict[str, Callable[[], Any]]:
    """Loops with workers that hand large tensors over, each in another way."""
    more = {"num_workers": 2, **more}

    def over(kind: Any, data: Any, **options: Any) -> Any:
        return kind(data, **options, **more)

    def data(decode: Decode = "numpy") -> Any:
        return PackedDataset(root, decode=decode)

    def stream(fields: Any = ("image", "label"), transform: Any = None) -> BatchStream:
        dataset = PackedDataset(root, decode="numpy", transform=transform)
        return BatchStream(dataset, 24, tail="keep", fields=fields)

    one: dict[str, Any] = {"batch_size": None}
    return {
        "one tensor": lambda: over(DataLoader, stream(), **one),
        "a list": lambda: over(DataLoader, stream(transform=sides), **one),
        "collate_fn": lambda: over(DataLoader, stream(["label"]), collate_fn=stack, **one),
        "mixed": lambda: over(DataLoader, MixedStream([stream(), stream()]), **one),
        "by index": lambda: over(DataLoader, data(), batch_size=24),
        "a subset": lambda: over(DataLoader, Subset(data(), range(40)), batch_size=24),
        "pil": lambda: over(DataLoader, data("pil"), batch_size=24, collate_fn=of_pictures),
        "stateful": lambda: over(StatefulDataLoader, stream(), **one),
        "stateful by index": lambda: over(StatefulDataLoader, data(), batch_size=24),
        "kept workers": lambda: over(DataLoader, stream(), persistent_workers=True, **one),
    }


def sides(pixels: Any) -> Any:
    """Pictures of two sizes, large enough that one does not fit."""
    large = np.zeros((200, 200, 3), np.uint8)
    return large[: 200 - int(pixels[0, 0, 0]) % 2]


def error_of(loader: Any) -> Exception | None:
    """What a loop raises. Its workers end at once; torch lets wait for 5 s each after an error."""
    loop = iter(loader)
    try:
        for _ in loop:
            pass
    except Exception as error:
        return error
    finally:
        loop._shutdown_workers()
    return None


WAYS = tuple(loops(Path()))
#: DataLoader's own collate allocates the shared memory there, where its errors are raised anyway.
BY_TORCH = ("by index", "a subset", "stateful by index")


def limit_files(worker: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("way", WAYS)
def test_what_does_not_fit_is_raised(build_pack: BuildPack, way: str) -> None:
    """Where memory for all of it may not be had, whatever the reason: here the workers' limit."""
    root = build_pack([[24, 24]], sizes=SIZES).root
    error = error_of(loops(root, worker_init_fn=limit_files)[way]())
    said = (
        "File too large" if way in BY_TORCH else r"/dev/shm: .*--shm-size.*packer\.reader\.Loader"
    )
    assert type(error) is (RuntimeError if way in BY_TORCH else OutputError)
    assert re.search(said, str(error))


IN_SMALL_MEMORY = """
import gc
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {top!r}]
from test_delivery import error_of, loops
if __name__ == "__main__":
    for way, loop in loops(Path({root!r})).items():
        error = error_of(loop())
        gc.collect()  # the loop's semaphores, which need this memory as well
        print(way, type(error).__name__, "of 0.5 MB free" in str(error))
"""


@pytest.mark.slow
def test_a_small_shared_memory(build_pack: BuildPack, tmp_path: Path) -> None:
    """As docker's, in a mount namespace of its own."""
    root = build_pack([[24, 24]], sizes=SIZES).root
    script = tmp_path / "script.py"
    here = Path(__file__)
    script.write_text(
        IN_SMALL_MEMORY.format(tests=str(here.parent), top=str(here.parents[3]), root=str(root))
    )
    mount = "mount -t tmpfs -o size=512k none /dev/shm"
    inside = ["unshare", "-m", "bash", "-c"]
    if subprocess.run([*inside, mount], check=False, capture_output=True).returncode:
        pytest.skip("mounting in a namespace of its own is not allowed here")
    command = f"{mount} && exec {sys.executable} {script}"
    done = subprocess.run(
        [*inside, command], check=False, capture_output=True, text=True, timeout=300
    )
    expected = {
        way: "RuntimeError False" if way in BY_TORCH else "OutputError True" for way in WAYS
    }
    assert done.stdout.splitlines() == [f"{way} {expected[way]}" for way in WAYS], done.stderr


def not_to_be_pickled(batch: Any) -> Any:
    return lambda: batch


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_what_does_not_pickle_is_raised(build_pack: BuildPack, kind: Any) -> None:
    stream = BatchStream(PackedDataset(build_pack([[4, 4]]).root), 4)
    loader = kind(stream, batch_size=None, num_workers=1, collate_fn=not_to_be_pickled)
    error = error_of(loader)
    assert isinstance(error, WorkerError)
    assert re.search(r"(PicklingError|AttributeError): .*can be pickled", str(error))


def open_few(worker: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def test_too_many_open_files(build_pack: BuildPack) -> None:
    """Each tensor that is handed over is a file."""
    built = build_pack([[64]], sizes=[(8, 6), (7, 6)])
    stream = BatchStream(PackedDataset(built.root), 64, tail="keep")
    loader: Any = DataLoader(stream, batch_size=None, num_workers=1, worker_init_fn=open_few)
    error = error_of(loader)
    assert isinstance(error, OutputError)
    assert re.search(r"too many open files.*ulimit -n", str(error))


def test_mini_batches_before_and_after_come(build_pack: BuildPack) -> None:
    """The error is raised in its place; the same workers go on with what follows."""
    built = build_pack([[4] * 6])
    dataset: Any = PackedDataset(built.root, decode="numpy")
    loader: Any = DataLoader(
        dataset,
        batch_sampler=[[0], [1, 2], [3] * 20, [4], [5, 6]],
        collate_fn=lambda samples: (
            of_pictures(samples),
            torch.tensor([label for _, label in samples]),
        ),
        num_workers=1,
        worker_init_fn=lambda worker: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    loop: Any = iter(loader)
    labels = []
    for step in range(5):
        if step == 2:
            with pytest.raises(OutputError):
                next(loop)
        else:
            labels.append(next(loop)[1].tolist())
    loop._shutdown_workers()  # else torch waits for 5 s after an error
    assert labels == [[0], [1, 2], [4], [0, 1]]


def test_is_copied_to_shared_memory_once(build_pack: BuildPack) -> None:
    """As by torch alone: by its queue's thread, so what comes lies in shared memory."""
    stream = BatchStream(PackedDataset(build_pack([[4, 4]]).root, decode="numpy"), 4)
    loader: Any = DataLoader(stream, batch_size=None, num_workers=1)
    for images, labels in loader:
        assert images.is_shared()
        assert labels.is_shared()
