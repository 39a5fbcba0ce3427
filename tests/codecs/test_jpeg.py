from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from packer.codecs import ManyCodec, jpeg
from packer.errors import ImageError
from packer.imaging.heads.probe import probe
from packer.imaging.native import pieces as pieces_module
from packer.imaging.native import region as region_module
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.settings.options import SUBSAMPLINGS, ImageOptions
from packer.types import Pixels


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("quality", [50, 75, 90, 100])
def test_quality_and_subsampling_are_in_the_files_tables(
    subsampling: str, quality: int, picture: Pixels, save: Callable[..., bytes]
) -> None:
    """Re-encoding at other quality went unnoticed; the file's own tables must show the options."""
    payload = jpeg.encode(picture, ImageOptions(quality=quality, subsampling=subsampling))
    assert probe(payload).subsampling == subsampling
    expected, found = (
        JpegImageFile(io.BytesIO(data))
        for data in (save(picture, "jpeg", quality=quality), payload)
    )
    assert found.quantization == expected.quantization


def test_a_sharp_red_and_blue_edge_survives_at_full_chroma() -> None:
    """At 4:2:0 the colours of a sharp edge blur; at 4:4:4 they must not."""
    edge = np.zeros((32, 32, 3), np.uint8)
    edge[:, :15, 0] = 255
    edge[:, 15:, 2] = 255
    full, half = (
        jpeg.decode(jpeg.encode(edge, ImageOptions(quality=95, subsampling=name)), 32, 32)
        for name in ("4:4:4", "4:2:0")
    )
    assert np.abs(full.astype(int) - edge).max() < 12
    assert np.abs(half.astype(int) - edge).max() > 60


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("restart", [0, 2])
def test_strip_keeps_the_coded_pixels_bit_for_bit(
    progressive: bool, restart: int, picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(
        picture,
        "jpeg",
        progressive=progressive,
        restart_marker_blocks=restart,
        comment=b"a comment",
        exif=b"Exif\0\0II*\0 thumbnail \xff\xd8\xff\xda\xff\xd9",
    )
    stripped = jpeg.strip(data + b"\xff\xd8 a second picture \xff\xd9")
    assert stripped[:4] == b"\xff\xd8\xff\xe0"
    assert b"comment" not in stripped
    assert b"Exif" not in stripped
    assert stripped[-2:] == b"\xff\xd9"
    at = data.find(b"\xff\xdb", data.find(b"thumbnail"))
    tail = data[at:].replace(b"\xff\xfe\x00\x0ba comment", b"")
    assert stripped.endswith(tail)
    assert np.array_equal(jpeg.decode(stripped, 90, 60), jpeg.decode(data, 90, 60))


def test_strip_keeps_adobes_marker(picture: Pixels, save: Callable[..., bytes]) -> None:
    """It says whether three components are RGB or YCbCr."""
    data = save(picture, "jpeg", keep_rgb=True)
    assert b"Adobe" in data
    stripped = jpeg.strip(data)
    assert np.array_equal(jpeg.decode(stripped, 90, 60), jpeg.decode(data, 90, 60))
    assert not jpeg.accepts(probe(data), ImageOptions())


def test_strip_repairs_nothing(picture: Pixels, save: Callable[..., bytes]) -> None:
    """A truncated file must stay truncated, so that decoding reports it."""
    data = save(picture, "jpeg", progressive=True)
    for end in (len(data) - 2, data.rfind(b"\xff\xda"), len(data) // 2):
        with pytest.raises(ImageError):
            jpeg.decode(jpeg.strip(data[:end]), 90, 60)


def test_gray_files_are_accepted_and_decode_to_rgb(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(Image.fromarray(picture).convert("L"), "jpeg")
    assert jpeg.accepts(probe(data), ImageOptions())
    decoded = jpeg.decode(jpeg.strip(data), 90, 60)
    assert decoded.shape == (60, 90, 3)
    assert (decoded[..., 0] == decoded[..., 2]).all()


def test_files_that_others_wrote_get_a_second_opinion(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(picture, "jpeg")
    at = data.find(b"\xff\xdb")
    stray = data[:at] + b"\0\1\2" + data[at:]
    assert np.array_equal(jpeg.decode(stray, 90, 60), jpeg.decode(data, 90, 60))
    with pytest.raises(ImageError, match="truncated"):
        jpeg.decode(data[: len(data) // 2], 90, 60)


@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize("divisor", [1, 2, 8])
def test_regions_get_a_second_opinion_where_a_decoder_complains(
    monkeypatch: pytest.MonkeyPatch,
    extension: bool,
    divisor: int,
    picture: Pixels,
    save: Callable[..., bytes],
) -> None:
    """Stray bytes between segments cost no pixel; the picture is decoded whole, without them."""
    if not extension:
        monkeypatch.setattr(region_module.NATIVE, "module", None)
    clean = save(picture, "jpeg", quality=90, restart_marker_rows=1)
    at = clean.find(b"\xff\xdb")
    stray = clean[:at] + b"\x00" * 9 + clean[at:]
    with pytest.raises(ValueError, match="extraneous"):
        simplejpeg.decode_jpeg(stray)
    region = Region(4 // divisor, 8 // divisor, 40 // divisor, 56 // divisor, divisor)
    ours, expected = (jpeg.decode_region(data, 90, 60, region) for data in (stray, clean))
    assert np.abs(ours.astype(int) - expected).max() <= (0 if divisor == 1 else 12)


def test_with_and_without_the_extension_regions_are_equal(
    monkeypatch: pytest.MonkeyPatch, picture: Pixels
) -> None:
    payload = jpeg.encode(picture, ImageOptions())
    regions = [
        Region(7, 9, 30, 41, fast=fast) if divisor == 1 else Region(1, 2, 5, 7, divisor, fast)
        for divisor in jpeg.DIVISORS
        for fast in (False, True)
    ]
    first = [jpeg.decode_region(payload, 90, 60, region) for region in regions]
    monkeypatch.setattr(region_module.NATIVE, "module", None)
    for region, pixels in zip(regions, first, strict=True):
        assert np.array_equal(jpeg.decode_region(payload, 90, 60, region), pixels)


def test_several_at_once_only_with_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else random parameters would be drawn twice, to no use."""
    assert isinstance(jpeg, ManyCodec)
    for native in (None, jpeg):
        monkeypatch.setattr(pieces_module.NATIVE, "module", native)
        for alike in (False, True):
            assert bool(jpeg.at_once(alike)) == (native is not None)


@pytest.mark.parametrize("native", [True, False])
def test_scans_without_end_are_not_decoded(
    native: bool, picture: Pixels, save: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that no converter stored: each scan takes the time of a picture."""
    if not native:
        monkeypatch.setattr(region_module.NATIVE, "module", None)
        monkeypatch.setattr(pieces_module.NATIVE, "module", None)
    height, width = picture.shape[:2]
    data = save(picture, "jpeg", progressive=True, quality=95)
    many = data[:-2] + b"\xff\xda\x00\x08\x01\x01\x01\x01\x10\x00\x3f" * 300 + data[-2:]
    for part in (Region(0, 0, height, width), Region(1, 2, 8, 9), Region(0, 0, 8, 9, 2)):
        with pytest.raises(ImageError, match=r"too-large: JPEG of 3\d\d scans, more than 100"):
            jpeg.decode_region(many, width, height, part)
    piece, out = Piece(width, height, Region(0, 0, 8, 8), False), np.zeros((1, 8, 8, 3), np.uint8)
    assert list(jpeg.decode_pieces([memoryview(many)], [piece], out)) == [0]
    assert list(jpeg.decode_pieces([memoryview(data)], [piece], out)) == ([] if native else [0])
    with pytest.raises(ImageError, match="too-large"):
        jpeg.decode(many, width, height)


@pytest.mark.skipif(
    not region_module.NATIVE.is_built, reason="built without libjpeg-turbo's headers"
)
@pytest.mark.parametrize("rounds", [33, 34])
def test_the_extension_stops_where_scans_are_too_many(
    rounds: int, picture: Pixels, save: Callable[..., bytes]
) -> None:
    """Three scans, one a component, again and again: libjpeg has no complaint about that."""
    height, width = picture.shape[:2]
    gray = save(picture[..., 0], "jpeg")
    frame, scan = gray.find(b"\xff\xc0"), gray.find(b"\xff\xda")
    numbers = (1, 2, 3)
    components = b"".join(bytes([number, 0x11, 0]) for number in numbers)
    head = gray[:frame] + b"\xff\xc0\x00\x11" + gray[frame + 4 : frame + 9] + b"\x03" + components
    head += gray[frame + 13 : scan]
    scans = [
        b"\xff\xda\x00\x08\x01" + bytes([n, 0, 0, 63, 0]) + gray[scan + 10 : -2] for n in numbers
    ]
    data = head + b"".join(scans) * rounds + gray[-2:]
    out = np.zeros((8, 9, 3), np.uint8)
    found = region_module.decode_jpeg(data, (width, height), Region(1, 2, 8, 9), out)
    assert found == (rounds * 3 <= 100)
