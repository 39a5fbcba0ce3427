from __future__ import annotations

import io
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from packer.codecs import jpeg
from packer.imaging.native import region
from packer.imaging.native.region import Region, decode_jpeg
from packer.types import Array, Pixels

needs_extension = pytest.mark.skipif(
    region.NATIVE.module is None, reason="built without a compiler or libjpeg-turbo's headers"
)
SIDE = st.integers(1, 120)
#: All samplings that libjpeg has code of its own for, and what else a decoder meets.
KINDS = ("420", "422", "444", "440", "411", "gray", "progressive", "restart", "rgb")


def picture(height: int, width: int, seed: int) -> Pixels:
    """Soft patches with noise: all frequencies, and chroma that changes from block to block."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (-(-height // 6), -(-width // 6), 3), np.uint8)
    soft = np.array(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
    noisy = soft + random.integers(-20, 21, (height, width, 3))
    pixels: Pixels = noisy.clip(0, 255).astype(np.uint8)
    return pixels


def encode(pixels: Pixels, kind: str) -> bytes:
    if kind.isdigit():
        return bytes(simplejpeg.encode_jpeg(pixels, quality=85, colorsubsampling=kind))
    image = Image.fromarray(pixels).convert("L" if kind == "gray" else "RGB")
    options: dict[str, dict[str, Any]] = {
        "progressive": {"progressive": True},
        "restart": {"restart_marker_rows": 1},
        "rgb": {"keep_rgb": True},
    }
    file = io.BytesIO()
    image.save(file, "jpeg", quality=85, **options.get(kind, {}))
    return file.getvalue()


def decoded(payload: bytes, size: tuple[int, int], part: Region) -> Pixels | None:
    """What the extension makes of a rectangle; None where it refuses."""
    out = np.full((part.height, part.width, 3), 99, np.uint8)
    return out if decode_jpeg(payload, size, part, out) else None


def is_exactly(payload: bytes, size: tuple[int, int], part: Region, whole: Pixels) -> bool:
    found = decoded(payload, size, part)
    return found is not None and np.array_equal(found, part.cut(whole))


@st.composite
def rectangles(draw: st.DrawFn, height: int, width: int) -> tuple[int, int, int, int]:
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left))


@needs_extension
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), height=SIDE, width=SIDE, seed=st.integers(0, 999))
def test_a_rectangle_is_cut_out_of_the_whole_bit_for_bit(
    fast: bool, kind: str, data: st.DataObject, height: int, width: int, seed: int
) -> None:
    """Against another build of libjpeg-turbo, that in simplejpeg; chroma at edges included."""
    payload = encode(picture(height, width, seed), kind)
    whole = simplejpeg.decode_jpeg(payload, "RGB", fastdct=fast, fastupsample=fast)
    part = Region(*data.draw(rectangles(height, width)), fast=fast)
    assert is_exactly(payload, (width, height), part, whole)


@needs_extension
@pytest.mark.parametrize("divisor", [2, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 999))
def test_so_is_a_rectangle_of_a_reduced_picture(
    divisor: int, kind: str, data: st.DataObject, seed: int
) -> None:
    height, width = data.draw(st.integers(64, 130)), data.draw(st.integers(64, 130))
    payload = encode(picture(height, width, seed), kind)
    shape = -(-height // divisor), -(-width // divisor)
    whole = simplejpeg.decode_jpeg(
        payload, "RGB", min_height=shape[0], min_width=shape[1], min_factor=divisor
    )
    assert whole.shape[:2] == shape
    part = Region(*data.draw(rectangles(*shape)), divisor)
    assert is_exactly(payload, (width, height), part, whole)


@needs_extension
def test_what_is_not_as_the_index_says_is_refused() -> None:
    """Another size than the index gives, and files that only a decoder of the whole picture may
    judge.
    """
    payload = encode(picture(40, 60, 0), "420")
    part = Region(8, 8, 16, 16)
    assert decoded(payload, (60, 40), part) is not None
    for size in ((40, 60), (61, 40), (60, 39), (120, 80), (65_500, 65_500)):
        assert decoded(payload, size, part) is None
    beyond = [(0, 0, 41, 60), (0, 0, 40, 61), (39, 0, 2, 1), (0, 60, 1, 1), (0, 0, 0, 9)]
    for top, left, height, width in [*beyond, (2**31 - 1, 0, 1, 1), (0, 2**31 - 1, 1, 1)]:
        assert decoded(payload, (60, 40), Region(top, left, height, width)) is None
    assert decoded(payload, (60, 40), Region(0, 0, 21, 30, 2)) is None
    cmyk = io.BytesIO()
    Image.fromarray(picture(40, 60, 0)).convert("CMYK").save(cmyk, "jpeg")
    png = io.BytesIO()
    Image.fromarray(picture(40, 60, 0)).save(png, "png")
    for other in (cmyk.getvalue(), png.getvalue(), b"", b"\xff\xd8\xff\xd9", payload[:-2]):
        assert decoded(other, (60, 40), part) is None


@needs_extension
def test_damage_where_it_looks_is_refused() -> None:
    """Cut files above all, with and without an end that pretends: never half a picture."""
    pixels = picture(64, 64, 1)
    for kind in ("420", "progressive", "restart"):
        payload = encode(pixels, kind)
        last = Region(48, 0, 16, 64)
        assert decoded(payload, (64, 64), last) is not None
        for kept in range(2, len(payload) - 40, 37):
            assert decoded(payload[:kept], (64, 64), last) is None
            if kind != "progressive":  # lost scans of one leave no trace, as for any decoder
                assert decoded(payload[:kept] + b"\xff\xd9", (64, 64), last) is None


@needs_extension
@given(data=st.data(), kind=st.sampled_from(KINDS), seed=st.integers(0, 20))
def test_hostile_payloads_are_decoded_or_refused(data: st.DataObject, kind: str, seed: int) -> None:
    """Any bytes changed anywhere: no crash, and nothing written beside the rectangle."""
    payload = bytearray(encode(picture(32, 40, seed), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    around = np.full((3, 20, 20, 3), 77, np.uint8)
    decode_jpeg(bytes(payload), (40, 32), Region(4, 8, 20, 20), around[1])
    assert (around[0] == 77).all()
    assert (around[2] == 77).all()


@needs_extension
def test_only_memory_of_that_shape_is_written_to() -> None:
    native = region.NATIVE.module
    assert native is not None
    payload = encode(picture(16, 16, 0), "420")
    frozen = np.zeros((8, 8, 3), np.uint8)
    frozen.flags.writeable = False
    refused: list[Array] = [
        np.zeros((8, 8), np.uint8),
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8, 3), np.float32),
        np.zeros((8, 16, 3), np.uint8)[:, ::2],
        np.zeros((70_000, 1, 3), np.uint8),
        frozen,
    ]
    for out in refused:
        with pytest.raises((ValueError, BufferError)):
            native.decode(payload, out, (16, 16), (0, 0), 1, False)
    good = np.zeros((8, 8, 3), np.uint8)
    for size, corner, divisor in [
        ((0, 16), (0, 0), 1),
        ((16, 16), (-1, 0), 1),
        ((16, 16), (0, 0), 3),
        ((16, 16), (0, 0), 0),
    ]:
        with pytest.raises(ValueError, match=r"no JPEG|divisor"):
            native.decode(payload, good, size, corner, divisor, False)


@needs_extension
def test_threads_decode_at_the_same_time() -> None:
    """Each gets its own picture: nothing is shared, and the interpreter's lock is not held."""
    pictures = [picture(90, 110, seed) for seed in range(4)]
    payloads = [encode(pixels, "420") for pixels in pictures]
    part = Region(13, 21, 60, 70)
    whole = [simplejpeg.decode_jpeg(payload, "RGB") for payload in payloads]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            if not is_exactly(payloads[number], (110, 90), part, whole[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_extension_nothing_is_decoded() -> None:
    script = (
        "import sys; sys.modules['packer.imaging.native._region'] = None\n"
        "import numpy as np; from packer.imaging.native.region import Region, decode_jpeg\n"
        "print(decode_jpeg(b'', (8, 8), Region(0, 0, 8, 8), np.zeros((8, 8, 3), np.uint8)))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.split() == [b"False"]


def test_rectangles_of_pixels() -> None:
    pixels = picture(9, 12, 0)
    part = Region(2, 3, 4, 5)
    assert np.array_equal(part.cut(pixels), pixels[2:6, 3:8])
    assert np.shares_memory(part.cut(pixels), pixels)
    out = np.zeros((4, 5, 3), np.uint8)
    assert part.cut(pixels, out) is out
    assert np.array_equal(out, pixels[2:6, 3:8])
    assert not part.is_whole(12, 9)
    assert Region(0, 0, 9, 12).is_whole(12, 9)
    assert not Region(0, 0, 9, 12, 2).is_whole(12, 9)


def _without_last_scans(payload: bytes, missing: int) -> bytes:
    """A progressive JPEG that ends before its last scans, with its end marker."""
    starts = [at for at in range(len(payload)) if payload.startswith(b"\xff\xda", at)]
    cut = payload[: starts[-missing]]
    tables = cut.rfind(b"\xff\xc4")  # of the first scan that is missing
    return (cut[:tables] if tables > starts[-missing - 1] else cut) + b"\xff\xd9"


@pytest.mark.parametrize("kind", ["progressive", "progressive gray"])
@pytest.mark.parametrize("missing", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("extension", [True, False])
def test_rectangles_of_pictures_that_lack_scans_are_those_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, extension: bool, missing: int, kind: str
) -> None:
    """libjpeg smooths such pictures across their blocks."""
    if not extension:
        monkeypatch.setattr(region.NATIVE, "module", None)
    pixels = picture(96, 120, 3)
    image = Image.fromarray(pixels).convert("L" if kind.endswith("gray") else "RGB")
    file = io.BytesIO()
    image.save(file, "jpeg", quality=85, progressive=True)
    payload = _without_last_scans(file.getvalue(), missing) if missing else file.getvalue()
    whole = jpeg.decode(payload, 120, 96)
    for part in (Region(16, 24, 40, 64), Region(0, 0, 33, 17), Region(50, 61, 46, 59)):
        out = np.zeros((part.height, part.width, 3), np.uint8)
        assert np.array_equal(jpeg.decode_region(payload, 120, 96, part, out), part.cut(whole))
