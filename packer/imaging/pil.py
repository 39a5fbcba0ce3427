"""The border to Pillow: pixels in and out, and reading files with its strictest manners."""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from packer.errors import ImageError
from packer.imaging.probe import PIXEL_LIMIT
from packer.types import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

# Warnings filters and Pillow's switches are global to the process, so one thread reads at a time.
# That costs little: Pillow holds the GIL for most of its work, and JPEG and WebP do not come here.
_LOCK = threading.Lock()
# A fork while another thread reads would leave the lock held in the child for ever.
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


def from_pixels(pixels: Pixels) -> Image:
    """H×W×3 uint8 RGB → Pillow's picture of mode RGB, which owns a copy; H×W×4, of which the
    fourth byte means nothing → mode RGBX, which uses the same memory.
    """
    from PIL import Image

    height, width, count = pixels.shape
    mode = "RGBX" if count == 4 else "RGB"
    return Image.frombuffer(mode, (width, height), np.ascontiguousarray(pixels), "raw", mode, 0, 1)


def to_pixels(image: Image) -> Pixels:
    """Pillow's picture of mode RGB → H×W×3 uint8, of mode RGBX → H×W×4; read-only."""
    return np.asarray(image)


@contextlib.contextmanager
def opened(data: bytes, kind: str) -> Iterator[Image]:
    """The first frame of a picture, decoded whole, as Pillow's; closed after use.

    No warning is printed, what is cut short is refused whatever the process has set in
    `ImageFile.LOAD_TRUNCATED_IMAGES`, and so is what has more than `PIXEL_LIMIT` pixels.

    Raises:
        ImageError: truncated, undecodable, too-large; also for what Pillow raises in the body.
        MemoryError: As it says.
    """
    from PIL import Image

    _silence_libraries()
    with _strict_manners():
        try:
            with Image.open(io.BytesIO(data), formats=(kind.upper(),)) as image:
                image.load()
                yield image
        except (MemoryError, ImageError):
            raise
        except Exception as error:  # a dozen types: OSError, SyntaxError, struct.error, …
            raise _as_image_error(error) from None


@contextlib.contextmanager
def _strict_manners() -> Iterator[None]:
    from PIL import Image, ImageFile

    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
        # Pillow warns above its limit and refuses above twice that.
        Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = PIXEL_LIMIT // 2, False
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = saved


@cache
def _silence_libraries() -> None:
    """Keep Pillow's loggers, and the libtiff it is linked with, from writing to stderr: one cut
    fax-coded page prints a line for each of its rows.
    """
    from PIL import _imaging

    logging.getLogger("PIL").addHandler(logging.NullHandler())
    # Pillow has no switch for it. Looking a symbol up through the extension finds it in the
    # libtiff that the extension itself loaded; a Pillow without libtiff has none.
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(_imaging.__file__)
        for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
            handler = getattr(library, name)
            handler.argtypes, handler.restype = [ctypes.c_void_p], ctypes.c_void_p
            handler(None)


#: What Pillow says of a file that ends too early.
_CUT = ("truncated", "unexpected end", "not enough image data")


def _as_image_error(error: Exception) -> ImageError:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError):
        return ImageError("too-large", f"more than the limit of {PIXEL_LIMIT:,} pixels")
    if isinstance(error, UnidentifiedImageError):
        return ImageError("undecodable", "Pillow finds its header broken")
    text = " ".join(str(error).split()) or type(error).__name__
    lower = text.lower()
    cut = isinstance(error, EOFError) or any(words in lower for words in _CUT)
    return ImageError("truncated" if cut else "undecodable", f"Pillow: {text}")
