from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from packer.errors import ImageError, MissingDependency
from packer.imaging import opencv
from packer.types import Pixels


def test_red_is_red(save: Callable[..., bytes]) -> None:
    """OpenCV's BGR must not leave packer.imaging.opencv."""
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 0] = 200
    data = save(red, "png")
    assert np.array_equal(opencv.decode_rgb(data), red)
    assert np.array_equal(opencv.decode_unchanged(data), red)
    settings: list[int] = []
    assert np.array_equal(opencv.decode_rgb(opencv.encode(".png", red, settings)), red)


def test_nothing_is_turned(photo: Pixels, save: Callable[..., bytes]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = save(photo, "png", exif=exif)
    assert np.array_equal(opencv.decode_rgb(data), photo)
    assert np.array_equal(opencv.decode_unchanged(data), photo)


@pytest.mark.parametrize("data", [b"", b"nothing", b"\x89PNG\r\n\x1a\n"])
def test_what_cannot_be_decoded_is_an_image_error_in_silence(
    data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ImageError, match="undecodable"):
        opencv.decode_rgb(data)
    out, said = capfd.readouterr()
    # Before 4.11 OpenCV leaves PNG to libpng, whose own lines nobody can switch off.
    assert (out, [line for line in said.splitlines() if "libpng" not in line]) == ("", [])


def test_pixels_that_may_not_be_written_to_can_be_encoded(photo: Pixels) -> None:
    locked = photo.copy()
    locked.flags.writeable = False
    settings: list[int] = []
    assert np.array_equal(opencv.decode_rgb(opencv.encode(".png", locked, settings)), photo)


@pytest.mark.parametrize("loaded", [True, False])
def test_one_thread_whether_opencv_is_loaded_already_or_later(loaded: bool) -> None:
    """OpenCV's threads in each of many workers oversubscribe the cores; one thread must remain."""
    code = f"""
import os
if {loaded}:
    import cv2
from packer.imaging import opencv
opencv.keep_to_one_thread()
cv2 = opencv.load_cv2()
import numpy
cv2.resize(numpy.zeros((3000, 3000, 3), numpy.uint8), (700, 700), interpolation=cv2.INTER_AREA)
print(cv2.getNumThreads(), len(os.listdir("/proc/self/task")))
"""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # numpy's own threads are not ours to count
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert found.stdout == "1 1\n"


def test_without_opencv_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    opencv.load_cv2.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingDependency, match="pip install opencv-python-headless"):
        opencv.load_cv2()


_OTHER_VERSION = """
import sys, cv2, types
from packer.imaging.opencv import decode_rgb, load_cv2
from packer.errors import ImageError
said = []
silence = getattr(getattr(cv2.utils, "logging", None), "setLogLevel", None) or cv2.setLogLevel
if sys.argv[1] == "before 4.13":
    cv2.utils = types.SimpleNamespace()
    cv2.setLogLevel = lambda level: (said.append(level), silence(level))
elif sys.argv[1] == "neither":
    del cv2.utils
    if hasattr(cv2, "setLogLevel"):
        del cv2.setLogLevel
load_cv2()
assert said == [0] * (sys.argv[1] == "before 4.13"), said
try:
    decode_rgb(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(99))
except ImageError:
    print("refused")
"""


@pytest.mark.parametrize("version", ["as it is", "before 4.13", "neither"])
def test_every_version_is_silenced_by_what_it_has(version: str) -> None:
    """`cv2.setLogLevel` was there before 4.13, `cv2.utils.logging` is from 4.13 on."""
    command = [sys.executable, "-c", _OTHER_VERSION, version]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "refused\n"
    if version != "neither":
        assert "grfmt_png" not in found.stderr
