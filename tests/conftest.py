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

import pytest

from tests.fixtures import MakeTree
from tests.trees import draw_jpeg, draw_tree

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


@pytest.fixture(scope="session")
def draw() -> Callable[..., bytes]:
    """See `draw_jpeg`."""
    return draw_jpeg


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
        return draw_tree(tmp_path / name, classes, each, size)

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
