from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import simplejpeg

from packer.errors import ImageError
from packer.imaging.heads.jpeg import parse
from packer.imaging.jpeg import decode, decode_by_simplejpeg, reduction
from packer.types import Pixels


@pytest.mark.parametrize(
    ("size", "target", "divisor"),
    [
        ((1024, 1024), (64, 64), 8),
        ((1023, 1024), (64, 64), 4),
        ((512, 4000), (64, 500), 4),
        ((256, 256), (64, 64), 2),
        ((255, 256), (64, 64), 1),
    ],
)
def test_the_reduced_side_is_at_least_twice_the_target(
    size: tuple[int, int], target: tuple[int, int], divisor: int
) -> None:
    assert reduction(*size, target) == divisor


@pytest.mark.parametrize("divisor", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [(97, 41), (96, 40), (33, 129)])
def test_decodes_at_exactly_the_scale_asked_for(
    divisor: int, size: tuple[int, int], draw_photo: Callable[..., Pixels]
) -> None:
    data = simplejpeg.encode_jpeg(draw_photo(*size), colorsubsampling="420")
    pixels = decode_by_simplejpeg(data, parse(data), divisor)
    assert pixels.shape == (-(-size[1] // divisor), -(-size[0] // divisor), 3)


def test_strictness_hears_every_complaint(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = save(photo, "jpeg")
    at = data.find(b"\xff\xdb")
    stray = data[:at] + b"\0\0" + data[at:]
    with pytest.raises(ValueError, match="extraneous"):
        decode_by_simplejpeg(stray, parse(stray))
    pixels, complained = decode(stray, parse(stray), 1)
    assert complained
    assert np.array_equal(pixels, decode_by_simplejpeg(data, parse(data)))


@pytest.mark.parametrize(("marker", "bits"), [(0xC3, 8), (0xC5, 8), (0xC1, 12)])
def test_codings_that_nobody_reads_are_named(
    marker: int, bits: int, photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = bytearray(save(photo, "jpeg"))
    at = data.find(b"\xff\xc0")
    data[at + 1], data[at + 4] = marker, bits
    head = parse(bytes(data))
    with pytest.raises(ImageError, match=f"{bits} bits, {head.coding}") as caught:
        decode(bytes(data), head, 1)
    assert caught.value.reason == "unsupported"
