"""Calls of Pillow: pixels in and out, and reading files with its strictest settings."""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from packer.errors import ImageError
from packer.imaging.heads.probe import PIXEL_LIMIT
from packer.types import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image

#: EXIF tag of the orientation; 1: upright.
_ORIENTATION = 0x0112
#: Modes that `convert("RGB")` converts correctly.
CONVERTIBLE: Final = (
    *("1", "L", "LA", "La", "P", "PA", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr"),
    *("I;16", "I;16B", "I;16L", "I;16N"),
)

# Warnings filters and Pillow's switches are global to the process, so one thread reads at a time.
# That costs little: Pillow holds the GIL for most of its work, and JPEG and WebP do not come here.
_LOCK = threading.Lock()
# If another thread held the lock during a fork, it would stay held in the child for ever.
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


def is_pillow(image: object) -> bool:
    """Whether this is one of Pillow's pictures."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def as_opened(image: Image) -> Pixels | bytes:
    """Return gray or RGB pixels of a PIL image, or else a file of it.

    An unchanged opened image is turned and converted to sRGB by its file's metadata. An image
    derived from another one, such as by `convert` or `rotate`, keeps that metadata although it may
    no longer be valid, so its pixels are used unchanged.

    Raises:
        ImageError: Its mode is not supported, or its file is broken.
    """
    try:
        opened = image.format is not None
        profile = image.info.get("icc_profile") if opened else None
        exif = image.getexif() if opened else None
        plain = profile is None and (exif is None or exif.get(_ORIENTATION, 1) == 1)
        if image.mode in ("RGB", "L") and plain:
            return np.array(image)
        if image.mode in ("YCbCr", "HSV", "LAB", "RGBX"):
            return np.array(image.convert("RGB"))
        if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"):
            raise ImageError("unsupported", f"a PIL image of mode {image.mode}")
        file = io.BytesIO()
        kind = "TIFF" if image.mode == "CMYK" else "PNG"
        fast = {} if kind == "TIFF" else {"compress_level": 1}
        image.save(file, kind, exif=exif or b"", icc_profile=profile, **fast)
        return file.getvalue()
    except (MemoryError, ImageError):
        raise
    except Exception as error:
        raise _as_image_error(error, known="") from error


def to_pixels(image: Image) -> Pixels:
    """Pillow's picture of mode RGB → H×W×3 uint8, of mode RGBX → H×W×4; read-only."""
    return np.asarray(image)


@contextlib.contextmanager
def opened(data: bytes, kind: str, *, known: str = "", by_libtiff: bool = False) -> Iterator[Image]:
    """Decode the first frame of a picture whole by Pillow; close it after use.

    No warning is printed. Truncated files are refused whatever the value of
    `ImageFile.LOAD_TRUNCATED_IMAGES`, and so are pictures of more than `PIXEL_LIMIT` pixels.

    Args:
        data: The file's bytes.
        kind: Kind of file as `sniff` names it.
        known: Description of the picture if its header was understood: if Pillow has no mode for
            it, the picture is then unsupported, not undecodable.
        by_libtiff: Let libtiff read even a TIFF that is not compressed.

    Raises:
        ImageError: truncated, undecodable, unsupported, too-large; also for errors of Pillow in
            the body.
        MemoryError: Not enough memory for the decoded picture.
    """
    from PIL import Image

    _silence_libraries()
    with _strict_settings(by_libtiff):
        try:
            _tiff_errors.clear()
            with Image.open(io.BytesIO(data), formats=(kind.upper(),)) as image:
                image.load()
                if _tiff_errors:
                    raise ImageError("damaged", f"libtiff: {_tiff_errors[0]}")
                yield image
        except (MemoryError, ImageError):
            raise
        except Exception as error:  # a dozen types: OSError, SyntaxError, struct.error, …
            raise _as_image_error(error, known) from None


@contextlib.contextmanager
def _strict_settings(by_libtiff: bool) -> Iterator[None]:
    from PIL import Image, ImageFile, TiffImagePlugin

    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
        through = TiffImagePlugin.READ_LIBTIFF
        # Pillow warns above its limit and refuses above twice that.
        Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = PIXEL_LIMIT // 2, False
        TiffImagePlugin.READ_LIBTIFF = by_libtiff
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = saved
            TiffImagePlugin.READ_LIBTIFF = through


_tiff_errors: list[str] = []
# TIFFErrorHandler of tiffio.h: void (const char *module, const char *format, va_list).
_TiffHandler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


def _keep_tiff_error(module: bytes | None, text: bytes, arguments: int | None) -> None:
    room = ctypes.create_string_buffer(200)
    ctypes.CDLL(None).vsnprintf(room, ctypes.c_size_t(200), text, ctypes.c_void_p(arguments))
    where = (module or b"").decode(errors="replace")
    _tiff_errors.append(f"{where}: {room.value.decode(errors='replace')}")


_tiff_error_handler = _TiffHandler(_keep_tiff_error)  # must outlive libtiff


@cache
def _silence_libraries() -> None:
    """Keep Pillow's loggers, and the libtiff it is linked with, from writing to stderr: a truncated
    fax-coded page prints a line for each row. libtiff's errors are collected, because Pillow
    ignores those about fax-coded rows, whose pixels are then undefined.
    """
    from PIL import _imaging

    logging.getLogger("PIL").addHandler(logging.NullHandler())
    # Pillow has no option for it. Looking a symbol up through the extension finds it in the
    # libtiff that the extension itself loaded; a Pillow without libtiff has none.
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(_imaging.__file__)
        for name, function in (
            ("TIFFSetErrorHandler", _tiff_error_handler),
            ("TIFFSetWarningHandler", _TiffHandler()),
        ):
            handler = getattr(library, name)
            handler.argtypes, handler.restype = [_TiffHandler], ctypes.c_void_p
            handler(function)


#: Phrases in Pillow's errors about a file that ends too early.
_CUT = ("truncated", "unexpected end", "not enough image data")


def _as_image_error(error: Exception, known: str) -> ImageError:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError):
        return ImageError("too-large", f"more than the limit of {PIXEL_LIMIT:,} pixels")
    if isinstance(error, UnidentifiedImageError) and known:
        return ImageError("unsupported", f"Pillow does not read {known}")
    if isinstance(error, UnidentifiedImageError):
        return ImageError("undecodable", "Pillow finds its header broken")
    text = " ".join(str(error).split()) or type(error).__name__
    lower = text.lower()
    if lower.startswith("unsupported"):
        return ImageError("unsupported", f"Pillow: {text}")
    cut = isinstance(error, EOFError) or any(words in lower for words in _CUT)
    return ImageError("truncated" if cut else "undecodable", f"Pillow: {text}")
