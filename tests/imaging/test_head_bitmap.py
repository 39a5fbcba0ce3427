from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from PIL import Image

from packer.errors import ImageError
from packer.imaging.head_bitmap import parse_bmp, parse_gif
from packer.types import Pixels


def test_bmp_rows_may_run_from_top_to_bottom(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = bytearray(save(photo, "bmp"))
    struct.pack_into("<i", data, 22, -80)
    head = parse_bmp(bytes(data))
    assert (head.width, head.height) == (120, 80)


def test_old_bmp_headers_are_read() -> None:
    data = b"BM" + struct.pack("<IIIIHHHH", 0, 0, 26, 12, 7, 5, 1, 24) + bytes(24 * 5)
    head = parse_bmp(data)
    assert (head.width, head.height, head.complete) == (7, 5, True)
    assert not parse_bmp(data[:-1]).complete


@pytest.mark.parametrize(("at", "value"), [(18, -5), (22, 0), (28, 30_000)])
def test_broken_bmps_are_refused(
    at: int, value: int, photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = bytearray(save(photo, "bmp"))
    struct.pack_into("<h" if at == 28 else "<i", data, at, value)
    with pytest.raises(ImageError, match="undecodable"):
        parse_bmp(bytes(data))


def test_gif_transparency_and_end_are_told(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo)
    data = save(image, "gif")
    assert not parse_gif(data).alpha
    assert parse_gif(data).complete
    assert not parse_gif(data[: len(data) // 2]).complete
    image.putalpha(Image.new("L", image.size, 0))
    assert parse_gif(save(image, "gif")).alpha


def test_a_gif_frame_beyond_the_screen_widens_it(photo: Pixels, save: Callable[..., bytes]) -> None:
    """CV21: the frame's size counts, not only the small screen's."""
    data = bytearray(save(photo, "gif"))
    struct.pack_into("<HH", data, 6, 10, 10)
    head = parse_gif(bytes(data))
    assert (head.width, head.height) == (120, 80)
