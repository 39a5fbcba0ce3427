from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageFile

from packer.errors import ImageError
from packer.imaging.decode import Decoded, decode
from packer.imaging.heads.probe import probe
from packer.imaging.heads.sniff import EXTENSIONS
from packer.imaging.plan import plan_picture
from packer.imaging.resize import resize
from packer.settings.options import ImageOptions
from packer.types import Array, Pixels

# Orientation → how an upright picture is laid out in the file.
_LAID_OUT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def _difference(first: Array, second: Array) -> float:
    assert first.shape == second.shape
    return float(np.abs(first.astype(int) - second.astype(int)).mean())


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_every_kind_gives_the_picture(kind: str, photo: Pixels, save: Callable[..., bytes]) -> None:
    picture = decode(save(photo, kind))
    assert (picture.width, picture.height) == (120, 80)
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.flags.c_contiguous
    assert _difference(picture.pixels, photo) < 12
    assert picture.notes == ()


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff"])
def test_all_eight_orientations_display_alike(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Orientation was lost by resizing; the picture must be turned once, its sizes included."""
    for orientation in range(1, 9):
        image = Image.fromarray(photo)
        if orientation > 1:
            image = image.transpose(_LAID_OUT[orientation])
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture = decode(save(image, kind, exif=exif))
        assert (picture.width, picture.height) == (120, 80)
        assert _difference(picture.pixels, photo) < 8
        assert picture.notes == (() if orientation == 1 else ("turned",))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_and_reduced_scale_go_together(
    orientation: int, draw_photo: Callable[..., Pixels], save: Callable[..., bytes]
) -> None:
    """The orientation must hold where large photographs decode at a reduced scale; the sides are no
    multiples of the scale.
    """
    upright = draw_photo(523, 389, 5)
    image = Image.fromarray(upright)
    if orientation > 1:
        image = image.transpose(_LAID_OUT[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = save(image, "jpeg", quality=95, exif=exif)
    options = ImageOptions(size=(48, 48))
    plan = plan_picture(probe(data), options)
    picture = decode(data, plan)
    assert picture.pixels.shape == (98, 131, 3)
    assert (picture.width, picture.height) == (523, 389)
    assert _difference(resize(picture, plan), resize(Decoded.of(upright), plan)) < 2


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_mode_becomes_rgb(mode: str, photo: Pixels, save: Callable[..., bytes]) -> None:
    """Other modes crashed array writers; each must become H×W×3 uint8."""
    if mode == "I;16":
        image = Image.fromarray(photo[..., 1].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(photo).convert(mode)
    kind = "tiff" if mode == "CMYK" else "png"
    pixels = decode(save(image, kind)).pixels
    assert pixels.shape == (80, 120, 3)
    assert pixels.dtype == np.uint8
    gray = np.asarray(Image.fromarray(photo).convert("L")).astype(int)
    assert np.corrcoef(pixels.mean(-1).ravel(), gray.ravel())[0, 1] > (0.3 if mode == "1" else 0.9)


@pytest.mark.parametrize("kind", ["png", "tiff"])
def test_sixteen_bits_are_scaled_not_clipped(kind: str, save: Callable[..., bytes]) -> None:
    """16-bit grey turned white; a ramp must stay a ramp."""
    ramp = np.linspace(0, 65535, 256 * 256).astype(np.uint16).reshape(256, 256)
    picture = decode(save(Image.fromarray(ramp), kind))
    assert np.array_equal(picture.pixels, np.repeat((ramp >> 8)[..., None], 3, -1))
    assert "16-bit" in picture.notes


def test_sixteen_bit_colour_and_its_transparent_colour(photo: Pixels) -> None:
    """16-bit RGB with a colour key, which Pillow cannot write."""
    deep = (photo.astype(np.uint16) * 257).astype(">u2")
    deep[:10, :10] = (1000, 2000, 3000)
    rows = b"".join(b"\0" + row.tobytes() for row in deep)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 120, 80, 16, 2, 0, 0, 0)),
        (b"tRNS", struct.pack(">HHH", 1000, 2000, 3000)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    picture = decode(_png(chunks))
    assert (picture.pixels[:10, :10] == 255).all()
    assert np.array_equal(picture.pixels[10:], photo[10:])
    assert picture.notes == ("16-bit", "alpha")


def _png(chunks: list[tuple[bytes, bytes]]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def test_pixels_of_32_bits_are_refused(save: Callable[..., bytes]) -> None:
    data = save(Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)), "tiff")
    with pytest.raises(ImageError, match="32 bits") as caught:
        decode(data)
    assert caught.value.reason == "unsupported"


def test_cmyk_is_turned_to_rgb_with_adobes_inversion(save: Callable[..., bytes]) -> None:
    """CMYK came out inverted; white must stay white, black black, red red."""
    inks = np.zeros((16, 48, 4), np.uint8)
    inks[:, 16:32] = (0, 255, 255, 0)
    inks[:, 32:] = (0, 0, 0, 255)
    data = save(Image.fromarray(inks, "CMYK"), "jpeg", quality=95)
    assert b"Adobe" in data
    picture = decode(data)
    white, red, black = (picture.pixels[4:12, x : x + 8].mean((0, 1)) for x in (4, 20, 36))
    assert white.min() > 240
    assert black.max() < 15
    assert red[0] > 200 > 60 > red[1:].max()
    assert picture.notes == ("cmyk",)


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_transparent_pixels_show_the_background(kind: str, save: Callable[..., bytes]) -> None:
    rgba = np.full((20, 30, 4), (255, 0, 0, 255), np.uint8)
    rgba[:, 15:, 3] = 0  # loud colour hidden under transparency
    data = save(Image.fromarray(rgba), kind, lossless=True)
    assert (decode(data).pixels[:, 16:] == 255).all()
    assert (decode(data).pixels[:, :14] == (255, 0, 0)).all()
    options = ImageOptions(background=(1, 2, 3))
    assert (decode(data, plan_picture(probe(data), options)).pixels[:, 16:] == (1, 2, 3)).all()
    assert decode(data).notes == ("alpha",)


@pytest.mark.parametrize("kind", ["gif", "png", "webp", "tiff"])
def test_the_first_frame_counts(
    kind: str, draw_photo: Callable[..., Pixels], save: Callable[..., bytes]
) -> None:
    """The first frame of an animation, the first page of a file of several pages."""
    first, second = draw_photo(40, 30, 1), draw_photo(40, 30, 2)
    data = save(
        Image.fromarray(first), kind, save_all=True, append_images=[Image.fromarray(second)]
    )
    picture = decode(data)
    assert "animation" in picture.notes
    assert _difference(picture.pixels, first) < 10 < _difference(picture.pixels, second)


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
@pytest.mark.parametrize("lenient", [False, True])
def test_a_file_cut_short_is_never_decoded(
    kind: str,
    lenient: bool,
    photo: Pixels,
    save: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A JPEG cut at any byte must be an error, also if the process set Pillow to be lenient."""
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    data = save(photo, kind)
    for part in (0.02, 0.2, 0.5, 0.6, 0.9, 0.99):
        with pytest.raises(ImageError) as caught:
            decode(data[: int(len(data) * part)])
        assert caught.value.reason in ("truncated", "undecodable")
        assert part < 0.2 or caught.value.reason == "truncated"
    assert ImageFile.LOAD_TRUNCATED_IMAGES is lenient
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progressive", [False, True])
def test_a_cut_jpeg_with_an_end_pasted_on_is_still_cut(
    progressive: bool, draw_photo: Callable[..., Pixels], save: Callable[..., bytes]
) -> None:
    """A cut JPEG with an end marker appended shows half a picture of grey; it must be an error."""
    data = save(draw_photo(300, 200, 3), "jpeg", progressive=progressive)
    with pytest.raises(ImageError) as caught:
        decode(data[: int(len(data) * 0.6)] + b"\xff\xd9")
    assert caught.value.reason == "damaged"


def test_a_jpeg_that_lacks_only_its_end_marker_is_whole(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(photo, "jpeg")
    picture = decode(data[:-2])
    assert np.array_equal(picture.pixels, decode(data).pixels)
    assert picture.notes == ("warnings",)


def test_a_progressive_jpeg_without_its_end_is_refused(
    photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Nothing tells how many scans are missing, so the file must be an error."""
    data = save(photo, "jpeg", progressive=True)
    with pytest.raises(ImageError, match="truncated"):
        decode(data[: data.rfind(b"\xff\xda")])


@pytest.mark.parametrize("kind", sorted(EXTENSIONS))
def test_garbage_after_the_end_is_harmless(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    """Bytes behind the end marker do not make a picture truncated."""
    data = save(photo, kind)
    rng = np.random.default_rng(1)
    picture = decode(data + rng.bytes(1500))
    assert np.array_equal(picture.pixels, decode(data).pixels)


def test_stray_bytes_within_a_jpeg_cost_nothing(photo: Pixels, save: Callable[..., bytes]) -> None:
    data = save(photo, "jpeg")
    at = data.find(b"\xff\xdb")
    picture = decode(data[:at] + b"\x00\x01\x02" + data[at:])
    assert np.array_equal(picture.pixels, decode(data).pixels)
    assert picture.notes == ("warnings",)


def test_text_that_inflates_without_end_does_not_cost_the_picture() -> None:
    """Text chunks of a PNG must not inflate without limit: they are not read."""
    bomb = b"x\0\0" + zlib.compress(bytes(80 << 20), 9)
    pixels = zlib.compress(b"\0\x80" * 4)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 4, 8, 0, 0, 0, 0)), *[(b"zTXt", bomb)] * 3]
    picture = decode(_png([*chunks, (b"IDAT", pixels), (b"IEND", b"")]))
    assert (picture.pixels == 0x80).all()


def test_a_bomb_is_refused_by_name_without_a_word_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A valid 1-bit PNG of 20000 x 10000 pixels in 25 kB must be refused, without a warning."""
    rows = zlib.compress((b"\0" + bytes(2500)) * 10_000)
    header = struct.pack(">IIBBBBB", 20_000, 10_000, 1, 0, 0, 0, 0)
    data = _png([(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")])
    for _ in range(2):
        with pytest.raises(ImageError, match="20000 x 10000") as caught:
            decode(data)
        assert caught.value.reason == "too-large"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("jpeg", {}),
        ("jpeg", {"progressive": True}),
        ("png", {}),
        ("webp", {}),
        ("bmp", {}),
        ("gif", {}),
        ("tiff", {"compression": "tiff_lzw"}),
        ("tiff", {"compression": "jpeg"}),
        ("tiff", {"compression": "tiff_adobe_deflate"}),
        ("tiff", {"compression": "group4"}),
    ],
)
def test_damaged_files_give_a_picture_or_an_image_error_in_silence(
    kind: str,
    settings: dict[str, object],
    photo: Pixels,
    save: Callable[..., bytes],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """No other exception, no warning (they are errors here), no line of a C library on stderr."""
    image = Image.fromarray(photo)
    data = save(
        image.convert("1") if settings.get("compression") == "group4" else image, kind, **settings
    )
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(40):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), 6):
            damaged[at] = rng.integers(256)
        try:
            picture = decode(bytes(damaged))
        except ImageError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert picture.pixels.shape[2] == 3
    assert capfd.readouterr() == ("", "")
    assert refused > 0 or kind == "bmp"  # of which any bytes are pixels


@pytest.mark.parametrize(("target", "shape"), [((60, 40), (80, 120)), ((30, 20), (40, 60))])
def test_reduced_scale_only_while_twice_the_target(
    target: tuple[int, int], shape: tuple[int, int], draw_photo: Callable[..., Pixels]
) -> None:
    data = simplejpeg.encode_jpeg(draw_photo(240, 160, 1))
    larger = (target[0] + 1, target[1])
    plans = [
        plan_picture(probe(data), ImageOptions(size=t, mode="exact")) for t in (target, larger)
    ]
    assert decode(data, plans[0]).pixels.shape == (*shape, 3)
    assert decode(data, plans[1]).pixels.shape != (*shape, 3)
    assert decode(data).pixels.shape == (160, 240, 3)


def test_reduced_scale_costs_less_than_the_encoding(draw_photo: Callable[..., Pixels]) -> None:
    """PSNR against the full decode: 32 dB at the 5th percentile, 38 dB median."""
    options = ImageOptions(size=(64, 64))
    measured = []
    for seed in range(12):
        width, height = 280 + 37 * seed, 260 + 23 * seed
        data = simplejpeg.encode_jpeg(draw_photo(width, height, seed), quality=92)
        plan = plan_picture(probe(data), options)
        reduced = decode(data, plan)
        assert reduced.pixels.shape[1] < width
        error = resize(reduced, plan).astype(float) - resize(decode(data), plan)
        measured.append(10 * np.log10(255**2 / np.mean(error**2)))
    assert np.percentile(measured, 5) >= 32
    assert np.median(measured) >= 38


def test_cmyk_is_inverted_with_and_without_adobes_marker(save: Callable[..., bytes]) -> None:
    """docs/decisions/0021: as Pillow and OpenCV show it."""
    plates = np.full((16, 16, 4), (200, 10, 90, 20), np.uint8)
    data = save(Image.fromarray(plates, "CMYK"), "jpeg", quality=100)
    start = data.find(b"\xff\xee")
    bare = data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]
    assert b"Adobe" not in bare
    expected = np.asarray(Image.fromarray(plates, "CMYK").convert("RGB"))
    for file in (data, bare):
        assert np.abs(decode(file).pixels.astype(int) - expected).max() <= 3
        assert decode(file).notes == ("cmyk",)
