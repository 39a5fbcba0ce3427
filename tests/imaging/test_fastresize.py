from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from packer.errors import MissingDependency
from packer.imaging import fastresize, opencv
from packer.imaging.fastresize import resize
from packer.imaging.opencv import keep_to_one_thread, load_cv2
from packer.types import Pixels

# Python 3.12 and later warn of forks where libraries have threads; that they work is the test.
pytestmark = pytest.mark.filterwarnings("ignore:This process .*multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test chooses its library; OpenCV's threads are as they were afterwards."""
    cv2 = load_cv2()
    threads = cv2.getNumThreads()
    fastresize._resizer.cache_clear()
    yield
    fastresize._resizer.cache_clear()
    opencv._one_thread = False
    cv2.setNumThreads(threads)


def without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> ModuleType:
        raise MissingDependency("no OpenCV here")

    monkeypatch.setattr(fastresize, "load_cv2", missing)


def gradient(height: int, width: int) -> Pixels:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 / width, y * 255 / height, 0 * x + 77], axis=2).astype(np.uint8)


@pytest.mark.parametrize("library", ["opencv", "pillow"])
def test_shrinking_is_antialiased(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """RS01: a checkerboard of single pixels becomes grey."""
    if library == "pillow":
        without_opencv(monkeypatch)
    board = np.indices((256, 256)).sum(axis=0) % 2 * 255
    pixels = np.repeat(board[:, :, None], 3, axis=2).astype(np.uint8)
    out = resize(pixels, 61, 47)
    assert out.shape == (47, 61, 3)
    assert out.std() < 6
    assert abs(out.mean() - 127.5) < 2


@pytest.mark.parametrize(("width", "height"), [(30, 20), (200, 160), (30, 160), (200, 20), (1, 1)])
def test_both_libraries_agree(monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    """Shrinking, enlarging, and one side each; height is not mistaken for width (H506)."""
    pixels = gradient(80, 100)
    ours = resize(pixels, width, height)
    fastresize._resizer.cache_clear()
    without_opencv(monkeypatch)
    theirs = resize(pixels, width, height)
    assert ours.shape == theirs.shape == (height, width, 3)
    assert abs(ours.astype(int) - theirs).max() <= 4


def test_takes_crops_and_mirrored_views(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = gradient(80, 100)
    view = pixels[10:50, 70:20:-1]
    expected = resize(np.ascontiguousarray(view), 25, 20)
    assert np.array_equal(resize(view, 25, 20), expected)
    fastresize._resizer.cache_clear()
    without_opencv(monkeypatch)
    assert abs(resize(view, 25, 20).astype(int) - expected).max() <= 4


def test_the_right_size_costs_nothing() -> None:
    pixels = gradient(8, 9)
    assert resize(pixels, 9, 8) is pixels


def test_without_any_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_opencv(monkeypatch)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependency, match="pip install opencv-python-headless"):
        resize(gradient(8, 9), 4, 4)


@pytest.mark.parametrize("used_before", [True, False])
def test_a_forked_child_of_a_parent_with_threads_does_not_hang(used_before: bool) -> None:
    """CL06: OpenCV's pool is copied by fork as memory without threads."""
    cv2 = load_cv2()
    cv2.setNumThreads(4)
    large = gradient(2000, 2000)
    if used_before:
        resize(large, 700, 700)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        keep_to_one_thread()
        for _ in range(3):
            resize(large, 700, 700)
        os._exit(0 if threads_here() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def threads_here() -> int:
    return len(os.listdir("/proc/self/task"))
