"""Fixtures shared by several rooms."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.fixtures import MakeTree

# A process of the fork server starts as bare as a spawned one: it has only what was pickled for it.
# With these imported in the server it starts in 50 ms instead of 2 s, most of it PyTorch's import.
# So tests use "forkserver"; "spawn" only where spawn itself is what they test.
multiprocessing.set_forkserver_preload(["torch.utils.data", "torch.distributed", "packer.reader"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many runs of tests/faults met a fault; each was followed by one that went on."""
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                counts.update(
                    {n[7:]: v for n, v in report.user_properties if n.startswith("faults ")}
                )
    if counts:
        shown = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
        terminalreporter.write_line(f"fault matrix: {counts.total()} runs ({shown})")


def draw_jpeg(seed: int, width: int, height: int) -> bytes:
    """A small picture that is smooth, coloured and different for every seed."""
    generator = np.random.default_rng(seed)
    corners = generator.integers(0, 256, (2, 2, 3)).astype(float)
    y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    top = corners[0, 0] * (1 - x) + corners[0, 1] * x
    bottom = corners[1, 0] * (1 - x) + corners[1, 1] * x
    pixels = top * (1 - y) + bottom * y + generator.normal(0, 4, (height, width, 1))
    return bytes(simplejpeg.encode_jpeg(pixels.clip(0, 255).astype(np.uint8), quality=85))


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_works() -> Iterator[None]:
    """Also where a shell started the tests in its background: it ignores SIGINT there, and so would
    every process that a test interrupts.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands cache goes into a folder of this run, not into the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever was converted or read: a thread that stays would forbid a later loop to fork."""
    before = set(threading.enumerate())
    yield
    if set(threading.enumerate()) - before:
        gc.collect()  # of a loop that the test's own variables kept
    for thread in set(threading.enumerate()) - before:
        thread.join(10)  # loky's end by themselves, some time after its processes
    assert set(threading.enumerate()) - before == set()


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Makes an image folder: `make_tree("photos", classes=3, each=8)`."""

    def make(name: str = "photos", *, classes: int = 3, each: int = 8, size: int = 64) -> Path:
        for label in range(classes):
            folder = tmp_path / name / f"{label + 1:03d}.class{label}"
            folder.mkdir(parents=True)
            for number in range(each):
                seed = label * 1000 + number
                data = draw_jpeg(seed, size + 5 * (number % 4), size + 3 * (number % 5))
                (folder / f"{label + 1:03d}_{number + 1:04d}.jpg").write_bytes(data)
        return tmp_path / name

    return make


@pytest.fixture
def digest_tree() -> Callable[[Path], dict[str, str]]:
    """Digests of all files below a folder, by relative name."""

    def digest(folder: Path) -> dict[str, str]:
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    return digest
