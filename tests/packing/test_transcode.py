from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from packer.codecs import load_codec
from packer.errors import ImageError
from packer.imaging.decode import Decoded, decode
from packer.imaging.heads.head import Head
from packer.imaging.heads.probe import probe
from packer.imaging.plan import plan_picture
from packer.imaging.resize import resize
from packer.packing.transcode import transcode, transcode_pixels
from packer.settings.options import ImageOptions
from packer.types import Encoded, Pixels

_SHORT = ImageOptions(size=(64, 64))


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    """150 x 100, each corner of another colour."""
    x, y = np.linspace(0, 1, 150)[None, :], np.linspace(0, 1, 100)[:, None]
    layers = [255 * x + 0 * y, 255 * y + 0 * x, 255 * (1 - x) * (1 - y)]
    return np.stack(layers, -1).astype(np.uint8)


def _save(pixels: Pixels | Image.Image, kind: str, **settings: Any) -> bytes:
    image = Image.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    buffer = io.BytesIO()
    image.save(buffer, kind.upper(), **settings)
    return buffer.getvalue()


def _pixels(encoded: Encoded, codec: str = "jpeg") -> Pixels:
    return load_codec(codec).decode(encoded.payload, encoded.width, encoded.height)


def _resized(pixels: Pixels, options: ImageOptions) -> Pixels:
    picture = Decoded.of(pixels)
    return resize(picture, plan_picture(Head("", picture.width, picture.height), options))


def _error(first: Pixels, second: Pixels) -> float:
    assert first.shape == second.shape
    return float(np.abs(first.astype(int) - second.astype(int)).mean())


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "bmp", "gif", "tiff"])
@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "raw"])
def test_every_kind_to_every_codec(kind: str, codec: str, pixels: Pixels) -> None:
    """Width and height must not be exchanged: 96 x 64, not 64 x 96."""
    encoded = transcode(_save(pixels, kind), ImageOptions(size=(64, 64), codec=codec))
    assert (encoded.width, encoded.height) == (96, 64)
    assert _error(_pixels(encoded, codec), _resized(pixels, _SHORT)) < 8
    assert encoded.notes == ()


@pytest.mark.parametrize("mode", ["short", "long", "exact", "crop", "pad"])
def test_every_mode(mode: str, pixels: Pixels) -> None:
    """Width and height must not be exchanged: target 80 x 60 gives 60 rows of 80."""
    size = (80, 80) if mode in ("short", "long") else (80, 60)
    options = ImageOptions(size=size, mode=mode, codec="raw")
    encoded = transcode(_save(pixels, "png"), options)
    shape = {"short": (80, 120), "long": (53, 80)}.get(mode, (60, 80))
    assert (encoded.height, encoded.width) == shape
    assert np.array_equal(_pixels(encoded, "raw"), _resized(pixels, options))


@pytest.mark.parametrize(("kind", "codec"), [("jpeg", "jpeg"), ("png", "png"), ("webp", "webp")])
def test_a_picture_that_needs_no_change_keeps_its_coded_pixels(
    kind: str, codec: str, pixels: Pixels
) -> None:
    """Re-encoding loses quality a second time; coded pixels are copied, metadata are dropped."""
    exif = Image.Exif()
    exif[0x010E] = "SECRET"
    plain = _save(pixels, kind)
    data = _save(pixels, kind, exif=exif)
    encoded = transcode(data, ImageOptions(codec=codec, quality=10))
    assert encoded.notes == ("kept",)
    assert encoded.payload == load_codec(codec).strip(plain)
    assert b"SECRET" not in encoded.payload
    same = transcode(data, ImageOptions(size=(100, 100), codec=codec))
    assert same == encoded
    anew = transcode(data, ImageOptions(codec=codec, quality=10, reencode=True))
    assert anew.notes == ()
    assert anew.payload != encoded.payload


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"exif": b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0"}, "turned"),
        ({"icc_profile": "wide"}, "icc"),
    ],
)
def test_what_must_change_is_encoded_anew(
    settings: dict[str, Any], note: str, pixels: Pixels
) -> None:
    if settings.get("icc_profile") == "wide":
        # sRGB with red and green swapped: a profile that shows at once whether it is applied.
        profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
        red, green = profile.find(b"rXYZ"), profile.find(b"gXYZ")
        profile[red : red + 4], profile[green : green + 4] = b"gXYZ", b"rXYZ"
        settings = {"icc_profile": bytes(profile)}
    encoded = transcode(_save(pixels, "jpeg", quality=95, **settings), ImageOptions())
    assert encoded.notes == (note,)
    expected = pixels[::-1, ::-1] if note == "turned" else pixels[..., [1, 0, 2]]
    assert _error(_pixels(encoded), np.ascontiguousarray(expected)) < 4
    assert probe(encoded.payload).orientation == 1
    assert probe(encoded.payload).icc == b""


def test_a_profile_that_cannot_be_used_is_noted_where_the_picture_is_kept(pixels: Pixels) -> None:
    encoded = transcode(_save(pixels, "jpeg", icc_profile=b"garbage" * 30), ImageOptions())
    assert encoded.notes == ("icc-ignored", "kept")


def test_a_picture_that_a_decoder_complains_of_is_encoded_anew(pixels: Pixels) -> None:
    """What is stored must decode without a second opinion, which a reader may not have."""
    data = _save(pixels, "jpeg")
    encoded = transcode(data[:-2], ImageOptions())
    assert encoded.notes == ("warnings",)
    assert _error(_pixels(encoded), decode(data).pixels) < 3
    assert encoded.payload.endswith(b"\xff\xd9")


def test_a_cut_picture_is_never_kept(pixels: Pixels) -> None:
    """A truncated picture is an error, although no pixel would have to change."""
    for settings in ({}, {"progressive": True}):
        data = _save(pixels, "jpeg", **settings)
        for end in (len(data) * 6 // 10, data.rfind(b"\xff\xda") + 20):
            with pytest.raises(ImageError) as caught:
                transcode(data[:end], ImageOptions())
            assert caught.value.reason == "truncated"
            assert caught.value.detail


def test_garbage_after_the_end_is_dropped(pixels: Pixels) -> None:
    """Bytes behind the end marker make no picture invalid, and are not packed."""
    data = _save(pixels, "jpeg")
    assert transcode(data + b"PK\3\4" * 300, ImageOptions()) == transcode(data, ImageOptions())


@pytest.mark.parametrize(
    ("kind", "extension", "noted"),
    [
        ("png", "JPEG", True),
        ("gif", ".jpg", True),
        ("webp", ".jpg", True),
        ("jpeg", ".JPG", False),
        ("jpeg", "jpeg", False),
        ("tiff", ".tif", False),
        ("png", "", False),
    ],
)
def test_content_decides_and_a_wrong_name_is_noted(
    kind: str, extension: str, noted: bool, pixels: Pixels
) -> None:
    """The content decides: ImageNet has a PNG named .JPEG."""
    encoded = transcode(_save(pixels, kind), _SHORT, extension)
    assert ("extension" in encoded.notes) is noted
    assert probe(encoded.payload).kind == "jpeg"


def test_gray_and_cmyk_are_noted(pixels: Pixels) -> None:
    """Grey and CMYK are reported as converted; three components are stored."""
    for mode, note in (("L", "gray"), ("CMYK", "cmyk")):
        encoded = transcode(_save(Image.fromarray(pixels).convert(mode), "jpeg"), _SHORT)
        assert encoded.notes == (note,)
        assert probe(encoded.payload).mode == "ycc"


def test_the_background_is_the_users(pixels: Pixels) -> None:
    image = Image.fromarray(pixels)
    image.putalpha(0)
    options = ImageOptions(codec="png", background=(10, 20, 30))
    assert (_pixels(transcode(_save(image, "png"), options), "png") == (10, 20, 30)).all()


def test_exact_decode_never_reduces_the_scale() -> None:
    """A one-pixel checkerboard: full decoding and a picking filter see black and white."""
    board = np.repeat((np.indices((512, 512)).sum(0) % 2 * 255).astype(np.uint8)[..., None], 3, -1)
    data = _save(board, "jpeg", quality=100, subsampling=0)
    full = _resized(decode(data).pixels, _SHORT)
    exact = transcode(data, ImageOptions(size=(64, 64), codec="raw", exact_decode=True))
    assert np.array_equal(_pixels(exact, "raw"), full)
    picked = transcode(data, ImageOptions(size=(64, 64), codec="raw", filter="nearest"))
    assert _pixels(picked, "raw").max() > 200 or _pixels(picked, "raw").min() < 50
    reduced = transcode(data, ImageOptions(size=(64, 64), codec="raw"))
    assert _pixels(reduced, "raw").std() < 5  # antialiased at any scale


@pytest.mark.parametrize("size", [(1, 2000), (2000, 1), (3, 900), (1, 1)])
@pytest.mark.parametrize("mode", ["short", "long", "exact", "crop", "pad"])
def test_thin_pictures(size: tuple[int, int], mode: str) -> None:
    """A thin picture must not get a side of 0 pixels."""
    data = _save(np.full((size[1], size[0], 3), 90, np.uint8), "png")
    options = ImageOptions(size=(256, 256), mode=mode)
    if mode == "short" and size != (1, 1):
        with pytest.raises(ImageError, match="bad-size"):
            transcode(data, options)
        return
    encoded = transcode(data, options)
    assert min(encoded.width, encoded.height) >= 1
    assert _pixels(encoded).shape == (encoded.height, encoded.width, 3)


def test_a_side_that_the_codec_cannot_store_is_refused_before_decoding() -> None:
    """A result whose side is too long for the codec is refused."""
    data = _save(np.zeros((1, 20_000, 3), np.uint8), "png")
    with pytest.raises(ImageError, match="codec webp ends at 16383") as caught:
        transcode(data, ImageOptions(codec="webp"))
    assert caught.value.reason == "bad-size"
    assert transcode(data, ImageOptions(codec="jpeg")).width == 20_000


def test_equal_input_gives_equal_bytes(pixels: Pixels) -> None:
    data = _save(pixels, "jpeg")
    assert transcode(data, _SHORT) == transcode(bytes(bytearray(data)), _SHORT)


def test_pixels_that_were_never_in_a_file(pixels: Pixels) -> None:
    encoded = transcode_pixels(pixels[::-1], ImageOptions(size=(64, 64), codec="png"))
    assert (encoded.width, encoded.height) == (96, 64)
    expected = _resized(np.ascontiguousarray(pixels[::-1]), _SHORT)
    assert np.array_equal(_pixels(encoded, "png"), expected)
    for shape, reason in (((0, 5, 3), "bad-size"), ((20_000, 20_000, 3), "too-large")):
        empty = np.broadcast_to(np.uint8(0), shape)
        with pytest.raises(ImageError) as caught:
            transcode_pixels(empty, ImageOptions())
        assert caught.value.reason == reason


def test_an_unknown_codec_is_refused(make_unknown: Callable[[], ImageOptions]) -> None:
    with pytest.raises(Exception, match="did you mean 'jpeg'"):
        transcode(_save(np.zeros((2, 2, 3), np.uint8), "png"), make_unknown())


@pytest.fixture
def make_unknown() -> Callable[[], ImageOptions]:
    return lambda: ImageOptions(codec="jpg")
