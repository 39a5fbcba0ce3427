from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from packer import registry
from packer.errors import ImageError
from packer.settings.options import ImageOptions
from packer.types import Pixels
from packer.writer.pictures import encode_picture

OPTIONS = ImageOptions(codec="png")


def decoded(image: Any) -> Any:
    found = encode_picture(image, OPTIONS)
    return registry.load("codecs", "png").decode(found.payload, found.width, found.height)


@pytest.fixture
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)


def test_what_is_no_file_is_neither_waited_for_nor_read_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "link.png").symlink_to("/dev/zero")
    with (tmp_path / "sparse.png").open("wb") as file:
        file.truncate(20 << 30)
    for path, why in (
        (tmp_path / "pipe.png", "unreadable: .* is not a regular file"),
        (tmp_path / "link.png", "unreadable: .* is not a regular file"),
        (tmp_path, "unreadable: .* is not a regular file"),
        (tmp_path / "none.png", "unreadable: .* No such file"),
        ("a\0b", "unreadable: "),
        (tmp_path / "sparse.png", "too-large: .* has more than 1,073,741,824 bytes"),
    ):
        with pytest.raises(ImageError, match=why):
            encode_picture(path, OPTIONS)


def test_arrays_and_tensors(pixels: Pixels) -> None:
    gray = np.ascontiguousarray(pixels[..., 0])
    three = np.stack([gray] * 3, axis=2)
    cases: list[tuple[Any, Any]] = [
        (pixels, pixels),
        (pixels[:, ::-1], pixels[:, ::-1]),
        (gray, three),
        (gray[..., None], three),
        (torch.from_numpy(pixels), pixels),
        (torch.from_numpy(pixels).permute(2, 0, 1), pixels),
        (torch.from_numpy(gray), three),
        (torch.from_numpy(gray)[None], three),
        (torch.from_numpy(gray)[..., None], three),
        # 3×H×W where both would do, as torchvision has it.
        (torch.from_numpy(pixels[:, :3].transpose(2, 0, 1).copy()), pixels[:, :3]),
    ]
    for given, expected in cases:
        assert np.array_equal(decoded(given), expected), type(given)


def test_files_by_bytes_and_by_path(tmp_path: Path, pixels: Pixels) -> None:
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).save(path)
    for given in (path, str(path), path.read_bytes(), memoryview(path.read_bytes())):
        assert np.array_equal(decoded(given), pixels)
    path.rename(tmp_path / "picture.jpg")
    assert "extension" in encode_picture(tmp_path / "picture.jpg", OPTIONS).notes
    with pytest.raises(ImageError, match=r"unreadable: .*picture\.png: No such file"):
        decoded(path)
    with pytest.raises(ImageError, match="unreadable"):
        decoded(tmp_path)


@pytest.mark.parametrize(
    "mode", ["RGB", "L", "RGBA", "LA", "P", "1", "I;16", "CMYK", "YCbCr", "HSV"]
)
def test_pillows_pictures_are_as_their_files(tmp_path: Path, pixels: Pixels, mode: str) -> None:
    """Of any mode, opened or made; a file of it gives the same pixels, where there can be one."""
    if mode == "I;16":
        image = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(pixels).convert(mode)
    if mode in ("YCbCr", "HSV"):
        assert np.array_equal(decoded(image), np.array(image.convert("RGB")))
        return
    path = tmp_path / f"picture.{'tif' if mode == 'CMYK' else 'png'}"
    image.save(path)
    expected = decoded(path)
    assert np.array_equal(decoded(image), expected)
    with Image.open(path) as opened:
        assert np.array_equal(decoded(opened), expected)


def test_an_opened_picture_is_turned_and_a_made_one_stays(tmp_path: Path, pixels: Pixels) -> None:
    path = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(path, exif=exif)
    with Image.open(path) as opened:
        assert np.array_equal(decoded(opened), np.rot90(pixels, -1))
        made = opened.transpose(Image.Transpose.ROTATE_270)
        assert np.array_equal(decoded(made), np.rot90(pixels, -1))


def test_an_opened_pictures_profile_counts(tmp_path: Path, pixels: Pixels) -> None:
    path = tmp_path / "profile.tif"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(pixels).save(path, icc_profile=profile)
    with Image.open(path) as opened:
        found = encode_picture(opened, OPTIONS)
    assert set(found.notes) - {"kept"} == set(encode_picture(path, OPTIONS).notes) - {"kept"}


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((4, 4, 3)), r"float64.*not H×W×3.*255"),
        (torch.zeros(3, 4, 4), r"torch\.float32.*255"),
        (torch.zeros(3, 4, 4, dtype=torch.bfloat16), r"torch\.bfloat16"),
        (np.zeros((4, 4), bool), "bool"),
        (np.zeros((4, 4, 3), np.uint16), "uint16"),
        (np.zeros((3, 5, 4), np.uint8), r"transpose\(1, 2, 0\)"),
        (np.zeros((5, 4, 4), np.uint8), "RGBA as a PIL image"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), r"\(2, 3, 4, 4\)"),
        (np.zeros(4, np.uint8), r"\(4,\)"),
        (np.zeros((0, 4, 3), np.uint8), "bad-size"),
        (None, "NoneType is neither bytes, a path"),
        ([[1, 2]], "list is neither"),
        (Image.new("F", (4, 4)), "mode F"),
        (b"no picture", r"undecodable|unsupported"),
    ],
)
def test_what_is_no_picture_is_refused(image: Any, words: str) -> None:
    with pytest.raises(ImageError, match=words):
        encode_picture(image, OPTIONS)


def test_a_broken_file_that_pillow_has_opened() -> None:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (99, 99, 3), np.uint8)
    Image.fromarray(noise).save(file, "PNG")
    with (
        Image.open(io.BytesIO(file.getvalue()[:4000])) as opened,
        pytest.raises(ImageError, match="truncated"),
    ):
        encode_picture(opened, OPTIONS)
