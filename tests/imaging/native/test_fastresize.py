from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from packer.errors import MissingDependency
from packer.imaging import opencv
from packer.imaging.native import fastresize
from packer.imaging.native.fastresize import mirror, resize
from packer.imaging.opencv import keep_to_one_thread, load_cv2
from packer.types import Array, Pixels

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


def without_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastresize.NATIVE, "module", None)


def use(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if library == "extension":
        if fastresize.NATIVE.module is None:
            pytest.skip("built without a compiler, or for another processor")
        without_opencv(monkeypatch)
    else:
        without_extension(monkeypatch)
    if library == "pillow":
        without_opencv(monkeypatch)


LIBRARIES = pytest.mark.parametrize("library", ["extension", "opencv", "pillow"])


def gradient(height: int, width: int) -> Pixels:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 / width, y * 255 / height, 0 * x + 77], axis=2).astype(np.uint8)


@LIBRARIES
def test_shrinking_is_antialiased(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Without antialiasing a checkerboard of single pixels gives black or white; it must become
    grey.
    """
    use(library, monkeypatch)
    board = np.indices((256, 256)).sum(axis=0) % 2 * 255
    pixels = np.repeat(board[:, :, None], 3, axis=2).astype(np.uint8)
    out = resize(pixels, 61, 47)
    assert out.shape == (47, 61, 3)
    assert out.std() < 6
    assert abs(out.mean() - 127.5) < 2


@pytest.mark.parametrize(("width", "height"), [(30, 20), (200, 160), (30, 160), (200, 20), (1, 1)])
def test_all_libraries_agree(monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    """Shrinking, enlarging, and one side each; width and height are not exchanged."""
    pixels = gradient(80, 100)
    ours = resize(pixels, width, height)
    without_extension(monkeypatch)
    opencvs = resize(pixels, width, height)
    fastresize._resizer.cache_clear()
    without_opencv(monkeypatch)
    pillows = resize(pixels, width, height)
    assert ours.shape == opencvs.shape == pillows.shape == (height, width, 3)
    assert abs(ours.astype(int) - pillows).max() <= 4
    assert abs(opencvs.astype(int) - pillows).max() <= 4


SIDE = st.integers(1, 130)


@given(height=SIDE, width=SIDE, to=st.tuples(SIDE, SIDE), seed=st.integers(0, 99))
def test_the_extension_is_pillows_bilinear_filter(
    height: int, width: int, to: tuple[int, int], seed: int
) -> None:
    """Within a level, on noise of the strongest contrast."""
    native = fastresize.NATIVE.module
    if native is None or height > to[0] * 16 or width > to[1] * 16:
        return
    random = np.random.default_rng(seed)
    around = (random.integers(0, 2, (height + 2, width + 3, 3)) * 255).astype(np.uint8)
    pixels = around[1:-1, 2:-1]
    out = np.empty((*to, 3), np.uint8)
    native.resize(pixels, out, False)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    expected = np.array(image.resize((to[1], to[0]), Image.Resampling.BILINEAR))
    assert abs(out.astype(int) - expected).max() <= 1
    mirrored = np.empty_like(out)
    native.resize(pixels, mirrored, True)
    assert np.array_equal(mirrored, out[:, ::-1])
    narrow = np.empty_like(out)
    native.resize(pixels, narrow, False, True)
    assert np.array_equal(narrow, out)  # whatever vectors the processor has
    native.resize(pixels, narrow, True, True)
    assert np.array_equal(narrow, mirrored)
    upside_down = np.empty_like(out)
    native.resize(pixels[::-1], upside_down, False)
    assert abs(upside_down[::-1].astype(int) - out).max() <= 1


@given(level=st.integers(0, 255), width=SIDE, to=SIDE)
def test_even_surfaces_stay_even(level: int, width: int, to: int) -> None:
    """No darkening at any scale, and none at borders."""
    pixels = np.full((7, width, 3), level, np.uint8)
    assert (resize(pixels, to, 23) == level).all()


@LIBRARIES
def test_thumbnails_of_huge_pictures(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    use(library, monkeypatch)
    pixels = gradient(900, 1500)
    out = resize(pixels, 3, 2, mirrored=True)
    assert out.shape == (2, 3, 3)
    assert abs(out[0, :, 0].astype(int) - [212, 127, 42]).max() <= 20
    assert abs(out[:, 1, 1].astype(int) - [63, 191]).max() <= 20


def test_the_extension_refuses_what_is_no_picture() -> None:
    native = fastresize.NATIVE.module
    if native is None:
        pytest.skip("built without a compiler, or for another processor")
    good = gradient(8, 8)
    frozen = good.copy()
    frozen.flags.writeable = False
    pairs = [
        (good.astype(np.float32), good),
        (good[:, ::-1], good),
        (good[..., :2], good),
        (good[..., 0], good),
        (good[:0], good),
        (good, np.zeros((4, 8, 3), np.float32)),
        (good, np.zeros((4, 0, 3), np.uint8)),
        (good, np.zeros((8, 8, 3), np.uint8)[:, ::2]),
        (good, frozen),
        (gradient(8, 17 * 4), good[:, :4].copy()),
    ]
    for pixels, out in pairs:
        with pytest.raises((ValueError, BufferError)):
            native.resize(pixels, out, False)


@LIBRARIES
def test_takes_crops_and_mirrored_views(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    view = gradient(80, 100)[10:50, 70:20:-1]
    use(library, monkeypatch)
    expected = resize(np.ascontiguousarray(view), 25, 20)
    assert np.array_equal(resize(view, 25, 20), expected)


def test_the_right_size_costs_nothing() -> None:
    pixels = gradient(8, 9)
    assert resize(pixels, 9, 8) is pixels


@LIBRARIES
@pytest.mark.parametrize(
    ("width", "height"), [(30, 20), (200, 160), (30, 160), (200, 20), (100, 80)]
)
def test_writes_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, library: str, width: int, height: int
) -> None:
    use(library, monkeypatch)
    pixels = gradient(80, 100)
    places = np.zeros((3, height, width, 3), np.uint8)
    out = places[1]
    assert resize(pixels, width, height, out) is out
    assert np.array_equal(places[1], resize(pixels, width, height))
    assert np.array_equal(resize(pixels, width, height, mirrored=True), places[1][:, ::-1])
    places[1] = 0
    resize(pixels, width, height, out, mirrored=True)
    assert np.array_equal(places[1], resize(pixels, width, height)[:, ::-1])
    assert not places[0].any()
    assert not places[2].any()


@pytest.mark.parametrize("library", ["opencv", "pillow"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_mirrors_in_place(monkeypatch: pytest.MonkeyPatch, library: str, dtype: type) -> None:
    if library == "pillow":
        without_opencv(monkeypatch)
    for width in (1, 8, 9):
        pixels: Array = gradient(5, width).astype(dtype)
        expected = pixels[:, ::-1].copy()
        mirror(pixels)
        assert np.array_equal(pixels, expected)


def test_without_any_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_extension(monkeypatch)
    without_opencv(monkeypatch)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependency, match="pip install opencv-python-headless"):
        resize(gradient(8, 9), 4, 4)


@pytest.mark.parametrize("used_before", [True, False])
def test_a_forked_child_of_a_parent_with_threads_does_not_hang(
    monkeypatch: pytest.MonkeyPatch, used_before: bool
) -> None:
    """A fork copies OpenCV's thread pool as memory without threads; the child must not wait for
    them.
    """
    without_extension(monkeypatch)
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
