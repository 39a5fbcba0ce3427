from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.heads.png import chunks, only, parse
from packer.types import Pixels


def test_facts_are_read(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    assert parse(save(image.convert("RGBA"), "png")).alpha
    assert parse(save(image.convert("P"), "png")).mode == "palette"
    assert parse(save(image.convert("L"), "png", transparency=3)).alpha
    deep = Image.fromarray(np.zeros((4, 4), np.uint16))
    assert (parse(save(deep, "png")).bits, parse(save(image, "png")).bits) == (16, 8)


def test_profile_that_inflates_without_end_is_cut() -> None:
    """A few bytes must not inflate to gigabytes, in metadata either."""
    bomb = zlib.compress(bytes(100 << 20), 9)
    pieces = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)), (b"iCCP", b"x\0\0" + bomb)]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in pieces
    )
    assert len(parse(data).icc) <= 8 << 20


def test_only_keeps_what_is_named_byte_for_byte(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = save(photo, "png", icc_profile=b"profile", dpi=(72, 72))
    kept = only(data, (b"IHDR", b"IDAT", b"IEND"))
    assert {name for name, _, _ in chunks(kept)} == {b"IHDR", b"IDAT", b"IEND"}
    assert {name for name, _, _ in chunks(data)} > {b"iCCP", b"pHYs"}
    at = data.find(b"IDAT")
    assert data[at:-12] in kept


def test_completeness_is_an_end_chunk(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = save(photo, "png")
    assert parse(data).complete
    assert not parse(data[:-1]).complete


@pytest.mark.parametrize(("at", "value"), [(12, b"iHDR"), (16, bytes(4)), (24, b"\7"), (25, b"\5")])
def test_broken_headers_are_refused(
    at: int, value: bytes, photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "png")
    with pytest.raises(ImageError, match="broken header"):
        parse(data[:at] + value + data[at + len(value) :])
