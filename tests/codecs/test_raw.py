from __future__ import annotations

import io

import numpy as np
import pytest

from packer.codecs import ManyCodec, raw
from packer.imaging.native import cutting
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels


@pytest.mark.parametrize(("width", "height"), [(1, 1), (224, 256), (9, 60_000)])
def test_header_and_payload_are_an_npy_file(width: int, height: int) -> None:
    """Version 1.0 of the format, the array aligned to 64 bytes."""
    pixels = np.arange(width * height * 3, dtype=np.uint32).astype(np.uint8)
    header = raw.file_header(width, height)
    assert len(header) % 64 == 0
    assert np.lib.format.read_magic(io.BytesIO(header)) == (1, 0)
    loaded = np.load(io.BytesIO(header + pixels.tobytes()))
    assert loaded.shape == (height, width, 3)
    assert np.array_equal(loaded.ravel(), pixels)


def test_decoding_copies_nothing(picture: Pixels) -> None:
    payload = bytearray(raw.encode(picture, ImageOptions()))
    decoded = raw.decode(memoryview(payload), 90, 60)
    payload[0] ^= 255
    assert decoded[0, 0, 0] == payload[0]


@pytest.mark.skipif(not cutting.NATIVE.is_built, reason="built without a compiler")
def test_several_pictures_are_cut_as_each_is(picture: Pixels) -> None:
    payloads: list[memoryview | None] = [
        memoryview(raw.encode(pixels, ImageOptions())) for pixels in (picture, picture[::-1])
    ]
    region = Region(7, 30, 41, 50)
    out = np.zeros((2, 41, 50, 3), np.uint8)
    assert isinstance(raw, ManyCodec)
    assert raw.at_once(True) > 0
    assert raw.at_once(False) == 0
    piece = Piece(90, 60, region)
    assert not raw.decode_pieces(payloads, [piece] * 2, out)
    for payload, pixels in zip(payloads, out, strict=True):
        assert payload is not None
        assert np.array_equal(pixels, raw.decode_region(payload, 90, 60, region))
    assert list(raw.decode_pieces([], [], out[:0])) == []
    out[...] = 0
    mirrored, lower = Piece(90, 60, region, True), Piece(90, 60, Region(8, 30, 41, 50))
    for pieces in ([piece, lower], [piece, None], [None, piece], [mirrored] * 2):
        assert list(raw.decode_pieces(payloads, pieces, out)) == [0, 1]
    assert list(raw.decode_pieces([payloads[0], None], [piece] * 2, out)) == [0, 1]
    assert list(raw.decode_pieces(payloads, [piece] * 2, out[:, :40])) == [0, 1]
    assert not out.any()
