"""Encode a picture given as bytes, path, PIL image, array or tensor."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from packer.errors import ImageError
from packer.files.regular import read_regular, reason
from packer.imaging.pil import as_opened, is_pillow
from packer.packing.transcode import transcode, transcode_pixels
from packer.settings.options import ImageOptions
from packer.sources import MAX_FILE_BYTES
from packer.types import Array, Encoded, Pixels


def encode_picture(image: Any, options: ImageOptions) -> Encoded:
    """Resize and encode a picture of any supported type.

    Args:
        image: A picture's file as bytes, or the path of one; a PIL image; pixels, uint8, upright:
            an array H×W×3 (RGB), H×W×1 or H×W (gray), or a torch tensor of these shapes or 3×H×W
            or 1×H×W. A tensor whose first and last sides are both valid is read as 3×H×W or 1×H×W.
        options: How pictures are made.

    Raises:
        ImageError: The picture cannot be stored.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        return transcode(bytes(image), options)
    if isinstance(image, str | os.PathLike):
        return transcode(_read(Path(image)), options, Path(image).suffix)
    if is_pillow(image):
        opened = as_opened(image)
        if isinstance(opened, bytes):
            return transcode(opened, options)
        image = opened
    elif _is_tensor(image):
        image = _of_tensor(image)
    return transcode_pixels(_rgb(image), options)


def _read(path: Path) -> bytes:
    """The file at a path, of the size that a file of a source may have.

    Raises:
        ImageError: unreadable: also a pipe, device or folder; too-large.
    """
    try:
        return read_regular(path, MAX_FILE_BYTES, follow=True)
    except (OSError, ValueError) as error:  # a zero byte in the path is the latter
        too_large = isinstance(error, OSError) and error.errno == errno.EFBIG
        kind = "too-large" if too_large else "unreadable"
        raise ImageError(kind, f"{path}: {reason(error)}") from error


def _is_tensor(image: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(image, torch.Tensor)


def _of_tensor(tensor: Any) -> Array:
    """H×W×C or H×W."""
    if str(tensor.dtype) != "torch.uint8":  # numpy lacks some of torch's dtypes
        raise _wrong(tuple(tensor.shape), str(tensor.dtype))
    array: Array = tensor.detach().cpu().numpy()
    if array.ndim == 3 and array.shape[0] in (1, 3):
        return array.transpose(1, 2, 0)
    return array


def _rgb(image: Any) -> Pixels:
    """H×W×3 of an array that may be gray."""
    if not isinstance(image, np.ndarray):
        raise ImageError(
            "unsupported",
            f"{type(image).__name__} is neither bytes, a path, a PIL image, an array nor a tensor",
        )
    gray = image.ndim == 2 or (image.ndim == 3 and image.shape[2] == 1)
    if image.dtype != np.uint8 or not (gray or (image.ndim == 3 and image.shape[2] == 3)):
        raise _wrong(image.shape, str(image.dtype))
    pixels: Pixels = image
    return np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2) if gray else pixels


def _wrong(shape: tuple[int, ...], dtype: str) -> ImageError:
    hint = ""
    if "float" in dtype:
        hint = ": convert from 0…1 with (255 * x).round() and to uint8"
    elif len(shape) == 3 and shape[0] in (1, 3):
        hint = ": .transpose(1, 2, 0) puts the channels last"
    elif len(shape) == 3 and shape[2] == 4:
        hint = ": give RGBA as a PIL image"
    return ImageError("undecodable", f"pixels are {shape} {dtype}, not H×W×3 or H×W uint8{hint}")
