"""Contract of a codec, tested on every codec; a new file in packer/codecs/ is found by itself."""

from __future__ import annotations

import io
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from packer import registry
from packer.codecs import Codec, load_codec
from packer.errors import ImageError
from packer.imaging.heads.probe import probe
from packer.imaging.heads.sniff import EXTENSIONS, sniff
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels

# Mean error of the smooth picture in levels, per codec that loses any; new codecs: none.
_LOSS = {"jpeg": 3.0, "webp": 4.0}


@pytest.fixture(params=registry.names("codecs"))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def codec(name: str) -> Codec:
    return load_codec(name)


@pytest.fixture
def options(name: str) -> ImageOptions:
    return ImageOptions(codec=name)


def _error(first: Pixels, second: Pixels) -> float:
    assert first.shape == second.shape
    return float(np.abs(first.astype(int) - second.astype(int)).mean())


def test_says_what_it_is(codec: Codec) -> None:
    assert codec.EXTENSION.lower().strip(".") == codec.EXTENSION
    assert codec.KIND == "" or codec.KIND in EXTENSIONS
    assert codec.MAX_SIDE >= 16_383
    assert set(codec.OPTIONS) <= {"quality", "subsampling", "reencode"}


def test_round_trip(name: str, codec: Codec, options: ImageOptions, picture: Pixels) -> None:
    """Red and blue, or width and height, were exchanged elsewhere; here red stays red, rows stay
    rows.
    """
    payload = codec.encode(picture, options)
    decoded = codec.decode(payload, 90, 60)
    assert decoded.shape == (60, 90, 3)
    assert decoded.dtype == np.uint8
    assert decoded.flags.c_contiguous
    assert _error(decoded, picture) <= _LOSS.get(name, 0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (7, 9)])
def test_odd_sizes(shape: tuple[int, int], codec: Codec, options: ImageOptions) -> None:
    pixels = np.full((*shape, 3), 60, np.uint8)
    decoded = codec.decode(codec.encode(pixels, options), shape[1], shape[0])
    assert decoded.shape == (*shape, 3)
    assert _error(decoded, pixels) <= 3


def test_equal_pixels_give_equal_bytes(
    codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    first = codec.encode(picture, options)
    assert first == codec.encode(picture.copy(), options)
    assert isinstance(first, bytes)
    assert first != codec.encode(255 - picture, options)


def test_views_and_locked_pixels_are_encoded(
    codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    locked = picture.copy()
    locked.flags.writeable = False
    assert codec.encode(locked, options) == codec.encode(picture, options)


def test_payloads_may_be_views(codec: Codec, options: ImageOptions, picture: Pixels) -> None:
    payload = codec.encode(picture, options)
    around = memoryview(b"before" + payload + b"after")[6 : 6 + len(payload)]
    assert np.array_equal(codec.decode(around, 90, 60), codec.decode(payload, 90, 60))


@pytest.mark.parametrize("size", [(60, 90), (91, 60), (90, 59), (45, 30), (1, 1), (9000, 6000)])
def test_a_picture_of_another_size_is_refused(
    size: tuple[int, int], codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    """A payload whose width and height are not the index's must be an error."""
    payload = codec.encode(picture, options)
    if codec.KIND == "" and size == (60, 90):
        pytest.skip("bare pixels do not tell rows from columns")
    with pytest.raises(ImageError) as caught:
        codec.decode(payload, *size)
    assert caught.value.reason == "bad-size"


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_cut_payload_is_refused(
    part: int, codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    payload = codec.encode(picture, options)
    for decode in (codec.decode, codec.decode_strictly):
        with pytest.raises(ImageError):
            decode(payload[: len(payload) * part // 3], 90, 60)


@given(data=st.data())
def test_a_region_is_cut_out_of_the_whole_bit_for_bit(data: st.DataObject) -> None:
    """With and without room given, over all codecs, whatever is installed."""
    codec = load_codec(data.draw(st.sampled_from(registry.names("codecs"))))
    height, width = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))
    pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
    payload = codec.encode(pixels, ImageOptions())
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    high, wide = data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left))
    region = Region(top, left, high, wide)
    expected = codec.decode(payload, width, height)[top : top + high, left : left + wide]
    assert np.array_equal(codec.decode_region(payload, width, height, region), expected)
    places = np.full((3, high, wide, 3), 7, np.uint8)
    out = places[1]
    assert codec.decode_region(payload, width, height, region, out) is out
    assert np.array_equal(out, expected)
    assert (places[::2] == 7).all()


def test_regions_of_a_reduced_picture(codec: Codec, options: ImageOptions, picture: Pixels) -> None:
    payload = codec.encode(picture, options)
    assert codec.DIVISORS[0] == 1
    for divisor in codec.DIVISORS:
        whole = Region(0, 0, -(-60 // divisor), -(-90 // divisor), divisor)
        part = Region(1, 2, 4, 5, divisor)
        expected = codec.decode_region(payload, 90, 60, whole)
        blocks = picture[: 60 // divisor * divisor, : 90 // divisor * divisor].reshape(
            60 // divisor, divisor, 90 // divisor, divisor, 3
        )
        inside = expected[: 60 // divisor, : 90 // divisor]
        assert _error(inside, blocks.mean(axis=(1, 3)).astype(np.uint8)) < 5
        assert np.array_equal(codec.decode_region(payload, 90, 60, part), part.cut(expected))


@pytest.mark.parametrize("region", [Region(0, 0, 60, 90), Region(3, 5, 20, 30)])
def test_regions_of_damaged_payloads_are_refused(
    region: Region, codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    """A cut payload, and a payload of another size than the index gives."""
    payload = codec.encode(picture, options)
    out = np.zeros((region.height, region.width, 3), np.uint8)
    for size in ((91, 60), (90, 61), (120, 90)):
        with pytest.raises(ImageError) as caught:
            codec.decode_region(payload, *size, region, out)
        assert caught.value.reason == "bad-size"
    for part in (0, 1, 2):
        with pytest.raises(ImageError):
            codec.decode_region(payload[: len(payload) * part // 3], 90, 60, region, out)


def test_header_and_payload_are_a_file(
    codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    """Libraries other than the writer's must see the same colours."""
    payload = codec.encode(picture, options)
    file = codec.file_header(90, 60) + payload
    decoded = codec.decode(payload, 90, 60)
    if codec.EXTENSION == "npy":
        assert np.array_equal(np.load(io.BytesIO(file)), picture)
        return
    pillow = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    opencv = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
    assert opencv is not None
    assert _error(pillow, decoded) < 1
    assert _error(opencv[..., ::-1].astype(np.uint8), decoded) < 1


def test_its_own_payloads_are_accepted_and_stripped_of_nothing_that_counts(
    codec: Codec, options: ImageOptions, picture: Pixels
) -> None:
    payload = codec.encode(picture, options)
    assert sniff(payload) == codec.KIND or codec.KIND == ""
    if codec.KIND:
        assert codec.accepts(probe(payload), options)
    stripped = codec.strip(payload)
    assert len(stripped) <= len(payload)
    assert np.array_equal(codec.decode(stripped, 90, 60), codec.decode(payload, 90, 60))
    assert np.array_equal(codec.decode_strictly(stripped, 90, 60), codec.decode(payload, 90, 60))
    assert codec.strip(stripped) == stripped


def test_metadata_and_what_follows_the_end_are_stripped(
    codec: Codec, options: ImageOptions, picture: Pixels, save: Callable[..., bytes]
) -> None:
    if not codec.KIND:
        assert codec.strip(b"pixels") == b"pixels"
        return
    exif = Image.Exif()
    exif[0x010E] = "SECRET PLACE"
    data = save(picture, codec.KIND, exif=exif, icc_profile=b"SECRET PROFILE" * 9) + b"SECRET TAIL"
    stripped = codec.strip(data)
    assert b"SECRET" not in stripped
    plain = save(picture, codec.KIND)
    assert np.array_equal(codec.decode(stripped, 90, 60), codec.decode(plain, 90, 60))


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_files_of_other_kinds_are_not_accepted(
    kind: str, codec: Codec, options: ImageOptions, picture: Pixels, save: Callable[..., bytes]
) -> None:
    assert codec.accepts(probe(save(picture, kind)), options) is (kind == codec.KIND)


@pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK", "I;16"])
def test_what_would_not_decode_to_plain_rgb_is_not_accepted(
    mode: str, codec: Codec, options: ImageOptions, picture: Pixels, save: Callable[..., bytes]
) -> None:
    if mode == "I;16":
        image = Image.fromarray(picture[..., 0].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(picture).convert(mode)
    if mode == "RGBA":
        image.putalpha(100)
    kind = {"CMYK": "jpeg", "RGBA": "webp" if codec.KIND == "webp" else "png"}.get(mode, "png")
    assert not codec.accepts(probe(save(image, kind)), options)


def test_sides_that_it_cannot_store_are_refused(codec: Codec, options: ImageOptions) -> None:
    if codec.MAX_SIDE > 70_000:
        pytest.skip("longer than any picture that is converted")
    pixels = np.zeros((1, codec.MAX_SIDE + 1, 3), np.uint8)
    if codec.KIND:
        with pytest.raises(ImageError) as caught:
            codec.encode(pixels, options)
        assert caught.value.reason == "bad-size"
    assert codec.encode(pixels[:, 1:], options)


@pytest.mark.parametrize(
    "taker", [name for name in registry.names("codecs") if load_codec(name).FOUR_BYTES]
)
def test_a_fourth_byte_changes_nothing_where_it_is_taken(taker: str) -> None:
    codec = load_codec(taker)
    pixels = np.random.default_rng(5).integers(0, 256, (21, 34, 4), np.uint8)
    three = np.ascontiguousarray(pixels[..., :3])
    assert codec.encode(pixels, ImageOptions()) == codec.encode(three, ImageOptions())
