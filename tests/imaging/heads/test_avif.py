from __future__ import annotations

import struct
from collections.abc import Callable

import cv2
import numpy as np
import pytest

from packer.errors import ImageError
from packer.imaging import opencv
from packer.imaging.decode import decode
from packer.imaging.heads.probe import probe
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.types import Pixels

pytestmark = pytest.mark.skipif(not opencv._reads_avif(), reason="OpenCV without AVIF")


def _box(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + name + body


def _with_properties(data: bytes, properties: list[bytes]) -> bytes:
    """An AVIF whose primary item, the first one, has more properties."""
    meta, ipco, ipma, iloc = (data.find(name) - 4 for name in (b"meta", b"ipco", b"ipma", b"iloc"))
    iprp = data.find(b"iprp") - 4
    sizes = {at: int.from_bytes(data[at : at + 4], "big") for at in (meta, iprp, ipco, ipma)}
    there, at = 0, ipco + 8
    while at < ipco + sizes[ipco]:
        there, at = there + 1, at + int.from_bytes(data[at : at + 4], "big")
    out = bytearray(data)
    # ItemPropertyAssociation, version 0, numbers of 8 bits: item, count, numbers.
    count = ipma + 8 + 8 + 2
    numbers = count + 1 + out[count]
    out[count] += len(properties)
    out[numbers:numbers] = bytes(0x80 | (there + 1 + n) for n in range(len(properties)))
    out[at:at] = b"".join(properties)
    more = len(properties) + sum(map(len, properties))
    for box, grows in (
        *((meta, more), (iprp, more)),
        *((ipco, more - len(properties)), (ipma + more - len(properties), len(properties))),
    ):
        size = int.from_bytes(out[box : box + 4], "big") + grows
        out[box : box + 4] = struct.pack(">I", size)
    pixels = data.find(b"mdat") + 4
    place = data.find(struct.pack(">I", pixels), iloc)
    out[place : place + 4] = struct.pack(">I", pixels + more)
    return bytes(out)


@pytest.fixture(scope="module")
def data(photo: Pixels, save: Callable[..., bytes]) -> bytes:
    return save(photo, "avif")


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("mirror", [None, 0, 1])
def test_turns_and_mirrors_are_applied(turns: int, mirror: int | None, data: bytes) -> None:
    """Quarter turns against the clock first; then top and bottom change places, or the sides."""
    properties = [_box(b"irot", bytes([turns]))] if turns else []
    properties += [] if mirror is None else [_box(b"imir", bytes([mirror]))]
    expected = np.rot90(decode(data).pixels, turns)
    if mirror is not None:
        expected = expected[::-1] if mirror == 0 else expected[:, ::-1]
    file = _with_properties(data, properties)
    assert np.array_equal(decode(file).pixels, expected)
    assert ("turned" in decode(file).notes) is bool(properties)
    encoded = transcode(file, ImageOptions(size=(40, 40), mode="exact"))
    assert (encoded.width, encoded.height) == (40, 40)


@pytest.mark.parametrize("depth", [8, 10, 12])
def test_every_depth_is_scaled(depth: int, photo: Pixels) -> None:
    deep = photo[..., ::-1].astype(np.uint16) << (depth - 8)
    pixels = deep.astype(np.uint8) if depth == 8 else deep
    settings = [cv2.IMWRITE_AVIF_QUALITY, 100, cv2.IMWRITE_AVIF_DEPTH, depth]
    data = bytes(cv2.imencode(".avif", pixels, settings)[1])
    assert probe(data).bits == depth
    picture = decode(data)
    assert np.abs(picture.pixels.astype(int) - photo).mean() < 2
    assert picture.notes == (() if depth == 8 else ("16-bit",))


def test_transparency_lies_on_the_background(photo: Pixels) -> None:
    opacity = np.full((80, 120, 1), 255, np.uint8)
    opacity[:, 60:] = 0
    pixels = np.concatenate([photo[..., ::-1], opacity], 2)
    picture = decode(bytes(cv2.imencode(".avif", pixels)[1]))
    assert "alpha" in picture.notes
    assert (picture.pixels[:, 70:] == 255).all()
    assert np.abs(picture.pixels[:, :50].astype(int) - photo[:, :50]).mean() < 12


def test_gray_is_read(photo: Pixels) -> None:
    settings = [cv2.IMWRITE_AVIF_QUALITY, 95]
    picture = decode(bytes(cv2.imencode(".avif", photo[..., 1], settings)[1]))
    assert "gray" in picture.notes
    assert np.abs(picture.pixels[..., 0].astype(int) - photo[..., 1]).mean() < 6


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ([_box(b"colr", b"nclx" + struct.pack(">HHHB", 9, 16, 9, 128))], "high dynamic range"),
        ([_box(b"colr", b"nclx" + struct.pack(">HHHB", 9, 18, 9, 128))], "high dynamic range"),
        ([_box(b"clap", bytes(32))], "clean aperture"),
    ],
)
def test_what_would_be_read_wrongly_is_refused_by_name(
    properties: list[bytes], why: str, data: bytes
) -> None:
    with pytest.raises(ImageError, match=f"unsupported: AVIF .*{why}"):
        decode(_with_properties(data, properties))


def test_cut_files_are_refused(data: bytes) -> None:
    for part in range(1, 20):
        with pytest.raises(ImageError):
            decode(data[: len(data) * part // 20])
    with pytest.raises(ImageError, match="truncated"):
        decode(data[:-5])


def test_hostile_boxes_give_a_head_or_an_image_error(data: bytes) -> None:
    rng = np.random.default_rng(1)
    end = data.find(b"mdat")
    for _ in range(3000):
        broken = bytearray(data)
        for at in rng.integers(12, end, rng.integers(1, 6)):
            broken[at] = rng.integers(0, 256)
        try:
            assert probe(bytes(broken)).kind == "avif"
        except ImageError as error:
            assert error.detail


def test_without_libavif_the_way_out_is_named(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencv, "_reads_avif", lambda: False)
    with pytest.raises(ImageError, match=r"unsupported: AVIF, which OpenCV .*avifdec"):
        decode(data)
