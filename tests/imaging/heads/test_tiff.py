from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.heads.tiff import exif_orientation, parse
from packer.types import Pixels


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
def test_orientation_in_both_byte_orders_and_both_integer_types(order: str, kind: int) -> None:
    """The orientation must not be lost; some cameras write it as LONG instead of SHORT."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *((6, 0) if kind == 3 else (6,)))
    block = mark + struct.pack(order + "IHHHI", 8, 1, 0x0112, kind, 1) + value + bytes(4)
    assert exif_orientation(block) == 6
    assert exif_orientation(b"Exif\0\0" + block) == 6


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II*\x00",
        b"II*\x00\xff\xff\xff\xff",
        b"II+\x00\x08\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
        b"MM\x00*\x00\x00\x00\x08\xff\xff",
        b"II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x09\x00\x00\x00",
        b"II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\xff\xff\xff\xff\x09\x00\x00\x00",
        b"II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x02\x00\x01\x00\x00\x00\x06\x00\x00\x00",
    ],
)
def test_broken_exif_counts_as_upright(block: bytes) -> None:
    assert exif_orientation(b"Exif\0\0" + block) == 1


def test_facts_are_read(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    assert parse(save(image, "tiff")).bits == 8
    assert parse(save(image.convert("CMYK"), "tiff")).mode == "cmyk"
    assert parse(save(image.convert("RGBA"), "tiff")).alpha
    assert parse(save(Image.fromarray(np.zeros((4, 4), np.uint16)), "tiff")).bits == 16
    assert parse(save(Image.fromarray(np.zeros((4, 4), np.float32)), "tiff")).mode == "float"
    assert parse(save(image, "tiff", big_tiff=True)).upright_size == (120, 80)


def test_completeness_is_the_end_of_the_last_strip(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "tiff")
    assert parse(data).complete
    assert not parse(data[: len(data) - 100]).complete


def test_a_tiff_without_a_size_is_refused() -> None:
    with pytest.raises(ImageError, match="without a size"):
        parse(b"II*\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00")
