from __future__ import annotations

import dataclasses
import io
import itertools
import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageCms

from packer.imaging import colour
from packer.imaging.colour import conversion
from packer.imaging.decode import decode
from packer.imaging.heads.probe import probe
from packer.imaging.plan import plan_picture
from packer.imaging.resize import resize
from packer.settings.options import ImageOptions
from packer.types import Pixels


def _tagged(space: bytes, device: bytes, connection: bytes, tags: dict[bytes, bytes]) -> bytes:
    """An ICC profile, version 2 (ICC.1:2001)."""
    body, table = b"", b""
    start = 128 + 4 + 12 * len(tags)
    for name, data in tags.items():
        table += name + struct.pack(">II", start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    head = struct.pack(
        ">I4sI4s4s4s", start + len(body), b"test", 0x02400000, device, space, connection
    )
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">III", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def _matrix_profile(columns: list[tuple[float, float, float]], gamma: float) -> bytes:
    """An RGB profile of three primaries (XYZ under D50) and one gamma."""
    tags = {}
    for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), columns, strict=True):
        tags[name] = b"XYZ \0\0\0\0" + struct.pack(">iii", *(round(v * 65536) for v in column))
    for name in (b"rTRC", b"gTRC", b"bTRC"):
        tags[name] = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))
    tags[b"wtpt"] = b"XYZ \0\0\0\0" + struct.pack(">III", 63190, 65536, 54061)
    return _tagged(b"RGB ", b"mntr", b"XYZ ", tags)


# Adobe RGB (1998), and sRGB's primaries, both adapted to D50.
_ADOBE = [(0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446)]
_SRGB = [(0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)]


def _gray_profile(gamma: float) -> bytes:
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256))
    white = b"XYZ \0\0\0\0" + struct.pack(">III", 63190, 65536, 54061)
    return _tagged(b"GRAY", b"mntr", b"XYZ ", {b"kTRC": curve, b"wtpt": white})


def _cmyk_profile() -> bytes:
    """A press that prints every ink as gray: what was red comes out gray if it is applied."""
    table = bytes(
        value
        for cyan, magenta, yellow, black in itertools.product((0, 1), repeat=4)
        for value in (round(255 * (1 - black) * (1 - (cyan + magenta + yellow) / 4)), 128, 128)
    )
    lut = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0))
    lut += struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 65536)
    lut += bytes(range(256)) * 4 + table + bytes(range(256)) * 3
    white = b"XYZ \0\0\0\0" + struct.pack(">III", 63190, 65536, 54061)
    return _tagged(b"CMYK", b"prtr", b"Lab ", {b"A2B0": lut, b"wtpt": white})


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "tiff"])
def test_a_wide_profile_is_converted_to_srgb(
    kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    profile = _matrix_profile(_ADOBE, 2.2)
    plain, tagged = (
        decode(save(photo, kind, **settings)) for settings in ({}, {"icc_profile": profile})
    )
    transform = ImageCms.buildTransform(
        ImageCms.ImageCmsProfile(io.BytesIO(profile)),
        ImageCms.createProfile("sRGB"),
        "RGB",
        "RGB",
    )
    expected = np.asarray(ImageCms.applyTransform(Image.fromarray(plain.pixels), transform))
    assert np.array_equal(tagged.pixels, expected)
    assert np.abs(expected.astype(int) - plain.pixels).max() > 10
    assert tagged.notes == ("icc",)


@pytest.mark.parametrize(("mode", "side"), [("short", 40), ("short", 300), ("pad", 50)])
def test_converting_after_shrinking_gives_the_same_picture(
    mode: str, side: int, draw_photo: Callable[..., Pixels], save: Callable[..., bytes]
) -> None:
    """Fewer pixels to convert; a filter's rounding apart, the order changes little."""
    photo = draw_photo(160, 120)
    data = save(photo, "jpeg", quality=95, icc_profile=_matrix_profile(_ADOBE, 2.2))
    options = ImageOptions(size=(side, side), mode=mode, background=(9, 90, 200))
    plan = plan_picture(probe(data), dataclasses.replace(options, exact_decode=True))
    first = resize(decode(data), plan)
    later = resize(decode(data, plan), plan)
    difference = np.abs(first.astype(int) - later)
    assert difference.mean() < 1
    assert np.percentile(difference, 99) <= 4  # more where a filter overshoots the gamut
    assert np.array_equal(later[0, 0], first[0, 0]) or mode != "pad"
    plain = resize(decode(save(photo, "jpeg", quality=95)), plan)
    assert np.abs(later.astype(int) - plain).mean() > 2  # it was converted at all


def test_a_profile_that_is_srgb_changes_nothing(photo: Pixels, save: Callable[..., bytes]) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = save(photo, "png", icc_profile=profile)
    assert np.array_equal(decode(data).pixels, photo)
    assert decode(data).notes == ()
    assert conversion(_matrix_profile(_SRGB, 1.0), "RGB").note == "icc"  # its primaries alone


@pytest.mark.parametrize("profile", [b"garbage" * 30, b"\0" * 16 + b"RGB ", b"x"])
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_broken_profile_costs_nothing(
    profile: bytes, kind: str, photo: Pixels, save: Callable[..., bytes]
) -> None:
    picture = decode(save(photo, kind, icc_profile=profile))
    assert np.array_equal(picture.pixels, decode(save(photo, kind)).pixels)
    assert picture.notes == ("icc-ignored",)


def test_a_profile_of_other_pixels_is_ignored(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo).convert("CMYK")
    picture = decode(save(image, "jpeg", icc_profile=_matrix_profile(_ADOBE, 2.2)))
    assert picture.notes == ("cmyk", "icc-ignored")
    assert decode(save(photo, "jpeg", icc_profile=_gray_profile(1.0))).notes == ("icc-ignored",)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_gray_profiles(kind: str, save: Callable[..., bytes]) -> None:
    ramp = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8), (16, 1)))
    linear = decode(save(ramp, kind, icc_profile=_gray_profile(1.0)))
    assert linear.notes == ("gray", "icc")
    assert abs(int(linear.pixels[8, 55, 0]) - 128) < 4  # a fifth of the light is mid gray in sRGB
    assert np.ptp(linear.pixels[8, 100]) <= 1
    # Gray under an RGB profile: its neutral colours.
    neutral = decode(save(ramp, kind, icc_profile=_matrix_profile(_ADOBE, 1.0)))
    assert neutral.notes == ("gray", "icc")
    assert abs(int(neutral.pixels[8, 55, 1]) - 128) < 4


@pytest.mark.parametrize("kind", ["png", "tiff"])
@pytest.mark.parametrize("opacity", [255, 254])
def test_gray_with_transparency_gets_the_profile_that_gray_alone_gets(
    opacity: int, kind: str, save: Callable[..., bytes]
) -> None:
    ramp = Image.fromarray(np.tile(np.arange(256, dtype=np.uint8), (16, 1)))
    pair = Image.merge("LA", (ramp, Image.new("L", ramp.size, opacity)))
    for profile, note in ((_gray_profile(1.0), "icc"), (_matrix_profile(_ADOBE, 1.0), "icc")):
        alone = decode(save(ramp, kind, icc_profile=profile))
        picture = decode(save(pair, kind, icc_profile=profile))
        assert note in picture.notes
        assert ("alpha" in picture.notes) is (opacity < 255)
        assert np.abs(picture.pixels.astype(int) - alone.pixels).max() <= 1


@pytest.mark.parametrize("kind", ["jpeg", "tiff"])
def test_cmyk_profiles(kind: str, save: Callable[..., bytes]) -> None:
    """CMYK pictures came out garbled or inverted; a profile in the file must be applied."""
    inks = np.zeros((16, 32, 4), np.uint8)
    inks[:, 16:] = (0, 255, 255, 0)
    picture = decode(save(Image.fromarray(inks, "CMYK"), kind, icc_profile=_cmyk_profile()))
    assert picture.notes == ("cmyk", "icc")
    assert picture.pixels[4:12, 4:12].min() > 240
    red = picture.pixels[4:12, 20:28].mean((0, 1))
    assert np.ptp(red) < 8
    assert 60 < red[0] < 200


def test_profile_and_transparency_go_together(photo: Pixels, save: Callable[..., bytes]) -> None:
    image = Image.fromarray(photo).convert("RGBA")
    image.putalpha(
        Image.fromarray(np.where(np.arange(120) < 60, 0, 255).astype(np.uint8)[None].repeat(80, 0))
    )
    profile = _matrix_profile(_ADOBE, 2.2)
    picture = decode(save(image, "png", icc_profile=profile))
    assert (picture.pixels[:, :60] == 255).all()
    whole = decode(save(photo, "png", icc_profile=profile))
    assert np.array_equal(picture.pixels[:, 60:], whole.pixels[:, 60:])
    assert picture.notes == ("icc", "alpha")


def test_without_colour_management_the_picture_stays_as_it_is(
    photo: Pixels, save: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ImportError("The _imagingcms C module is not installed")

    colour._conversion.cache_clear()
    monkeypatch.setattr(ImageCms, "ImageCmsProfile", missing)
    picture = decode(save(photo, "png", icc_profile=_matrix_profile(_ADOBE, 2.2)))
    colour._conversion.cache_clear()
    assert np.array_equal(picture.pixels, photo)
    assert picture.notes == ("icc-ignored",)
