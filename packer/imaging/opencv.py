"""Calls of OpenCV: its log is off, and pixels are RGB here."""

from __future__ import annotations

import re
import sys
from functools import cache
from types import ModuleType

import numpy as np

from packer.errors import ImageError, MissingDependency
from packer.installing import install_only, pip, version
from packer.types import Array, Pixels

#: Longest side in pixels that every format can store: WebP's, the shortest of all.
_ANY_FORMAT_SIDE = 16383
#: From OpenCV's core/utils/logger.defines.hpp.
_LOG_LEVEL_SILENT = 0


@cache
def load_cv2() -> ModuleType:
    """Import cv2 and switch its log to stderr off; its messages come back as errors.

    Raises:
        MissingDependency: No OpenCV is installed, or it cannot be loaded.
        ImportError: There is not enough memory to load it.
    """
    try:
        import cv2
    except ImportError as error:
        if "failed to map segment" in str(error):  # it is installed, but there is not enough memory
            raise
        raise MissingDependency(f"OpenCV cannot be imported: {error}", _repair()) from None
    _silence(cv2)
    if _one_thread:
        _stop_threads(cv2)
    return cv2


def _silence(cv2: ModuleType) -> None:
    """Switch OpenCV's log off: by one function before 4.13, by another one from 4.13 on."""
    logging = getattr(getattr(cv2, "utils", None), "logging", None)
    if logging is not None:
        logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    elif hasattr(cv2, "setLogLevel"):
        cv2.setLogLevel(_LOG_LEVEL_SILENT)


def _repair() -> str:
    """The command that repairs a missing cv2, or one without its window libraries."""
    if not version("opencv-python"):
        return install_only("cv2")
    headless = f"{pip()} uninstall -y opencv-python && {pip()} install opencv-python-headless"
    return f"apt-get install libgl1 libglib2.0-0, or: {headless}"


def keep_to_one_thread() -> None:
    """Keep OpenCV from using threads of its own in this process, whether it is loaded yet or not.

    For worker processes: there are as many of them as cores, and a forked child inherits the memory
    of its parent's thread pool, but not its threads.
    """
    global _one_thread  # noqa: PLW0603 - OpenCV's setting is one of the process, too
    _one_thread = True
    if "cv2" in sys.modules:
        _stop_threads(load_cv2())


_one_thread = False


def _stop_threads(cv2: ModuleType) -> None:
    # 0, not 1: at 1 OpenCV joins its pool's threads, and in a forked child that waits for ever.
    cv2.setNumThreads(0)


@cache
def _reads_avif() -> bool:
    return re.search(r"^\s*AVIF:\s+(?!NO\b)\S", load_cv2().getBuildInformation(), re.M) is not None


def require_avif() -> None:
    """Check that this OpenCV was built with libavif.

    Raises:
        ImageError: unsupported.
    """
    if not _reads_avif():
        raise ImageError(
            "unsupported",
            f"AVIF, which OpenCV {load_cv2().__version__} was built without; "
            "pip install 'opencv-python>=5', or avifdec (libavif) makes PNGs of it",
        )


def decode_unchanged(data: bytes | memoryview) -> Array:
    """Decode by OpenCV, not turned: H×W, H×W×3 (RGB) or H×W×4 (RGBA), uint8 or uint16.

    Raises:
        ImageError: undecodable.
        MemoryError: Not enough memory for the decoded picture.
    """
    cv2 = load_cv2()
    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    found = _imdecode(data, flags)
    if found.ndim == 3:
        code = cv2.COLOR_BGR2RGB if found.shape[2] == 3 else cv2.COLOR_BGRA2RGBA
        found = _with_channels(found, code)
    return found


def decode_rgb(data: bytes | memoryview) -> Pixels:
    """Decode by OpenCV to RGB uint8, not turned; transparency is dropped.

    Raises:
        ImageError: undecodable.
    """
    cv2 = load_cv2()
    found = _imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    return _with_channels(found, cv2.COLOR_BGR2RGB, found)


def encode(extension: str, pixels: Pixels, parameters: list[int]) -> bytes:
    """Encode RGB pixels by OpenCV in the format of an extension (with its dot).

    Raises:
        ImageError: bad-size.
        MemoryError: Not enough memory; encoding valid pixels fails for no other reason.
    """
    cv2 = load_cv2()
    bgr = _with_channels(pixels, cv2.COLOR_RGB2BGR)
    try:
        done, payload = cv2.imencode(extension, bgr, parameters)
    except cv2.error as error:
        _require_memory(error)
        done = False
    if not done:
        height, width = pixels.shape[:2]
        if max(height, width) <= _ANY_FORMAT_SIDE:
            raise MemoryError(f"{width} x {height} pixels cannot be encoded as {extension}")
        raise ImageError("bad-size", f"{width} x {height} pixels cannot be stored as {extension}")
    return bytes(payload)


def _with_channels(pixels: Array, code: int, target: Array | None = None) -> Array:
    """Convert or reorder channels, into `target` if given, which may be `pixels`."""
    cv2 = load_cv2()
    try:
        found: Array = cv2.cvtColor(pixels, code, dst=target)
    except cv2.error as error:
        _require_memory(error)
        raise
    return found


def _require_memory(error: Exception) -> None:
    """Raise a MemoryError if OpenCV's error has the code for missing memory."""
    if getattr(error, "code", 0) == load_cv2().Error.StsNoMem:
        raise MemoryError(str(error)) from None


def _imdecode(data: bytes | memoryview, flags: int) -> Array:
    cv2 = load_cv2()
    try:
        found: Array | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        _require_memory(error)
        raise ImageError("undecodable", f"OpenCV: {error.err}") from None
    if found is None:
        raise ImageError("undecodable", "OpenCV cannot decode it")
    return found
