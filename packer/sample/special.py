"""JPEGs that no codec stores but every data set has some of: gray, CMYK, turned by EXIF."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from packer.types import Pixels


def encode_gray(pixels: NDArray[np.uint8], quality: int) -> bytes:
    """H×W uint8 as a JPEG of one component."""
    import simplejpeg

    gray = np.ascontiguousarray(pixels[:, :, None])
    data: bytes = simplejpeg.encode_jpeg(gray, quality, colorspace="GRAY", colorsubsampling="Gray")
    return data


def encode_cmyk(pixels: Pixels, quality: int) -> bytes:
    """RGB as a CMYK JPEG as Photoshop writes them: inverted, with Adobe's APP14 marker."""
    import io

    from PIL import Image

    wide = pixels.astype(np.int32)
    # Half of the black that the colours have in common goes into the black plate.
    black = (255 - wide.max(axis=2)) // 2
    inks = 255 - wide * 255 // (255 - black)[:, :, None]
    plates = np.dstack([inks, black]).astype(np.uint8)
    out = io.BytesIO()
    image = Image.frombytes("CMYK", (pixels.shape[1], pixels.shape[0]), plates.tobytes())
    image.save(out, "JPEG", quality=quality)  # Pillow inverts, libjpeg writes the marker
    return out.getvalue()


def with_orientation(jpeg: bytes, orientation: int) -> bytes:
    """A JPEG with an EXIF segment that holds nothing but the orientation (1 to 8).

    APP1 of Exif 2.32, 4.5: "Exif", then a TIFF header and one directory of one SHORT, tag 0x0112.
    """
    tiff = struct.pack("<2sHIHHHIHHI", b"II", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    body = b"Exif\0\0" + tiff
    segment = b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    return jpeg[:2] + segment + jpeg[2:]
