from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from packer.codecs import png
from packer.errors import ImageError
from packer.imaging.heads.png import chunks, require_sound
from packer.imaging.heads.probe import probe
from packer.packing.transcode import transcode
from packer.settings.options import ImageOptions
from packer.types import Pixels


def test_lossless_on_noise() -> None:
    noise = np.random.default_rng(3).integers(0, 256, (41, 67, 3), dtype=np.uint8)
    assert np.array_equal(png.decode(png.encode(noise, ImageOptions()), 67, 41), noise)


def test_strip_keeps_the_deflated_pixels_bit_for_bit(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    data = save(picture, "png", dpi=(300, 300), icc_profile=b"profile")
    pixels = [data[start:end] for name, start, end in chunks(data) if name == b"IDAT"]
    stripped = png.strip(data)
    assert b"".join(pixels) in stripped
    assert [name for name, _, _ in chunks(stripped)] == [b"IHDR", *[b"IDAT"] * len(pixels), b"IEND"]


def test_a_transparent_colour_or_frames_are_not_accepted(
    picture: Pixels, save: Callable[..., bytes]
) -> None:
    image = Image.fromarray(picture)
    for settings in (
        {"transparency": (1, 2, 3)},
        {"save_all": True, "append_images": [image.rotate(180)]},
    ):
        assert not png.accepts(probe(save(image, "png", **settings)), ImageOptions())
    assert png.accepts(probe(save(image.convert("L"), "png")), ImageOptions())


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _parts(data: bytes) -> list[bytes]:
    return [data[start:end] for _, start, end in chunks(data)]


def _broken_checksum(part: bytes) -> bytes:
    return part[:-1] + bytes([part[-1] ^ 1])


def _with_pixel_data(parts: list[bytes], packed: bytes) -> list[bytes]:
    return [*parts[:-2], _chunk(b"IDAT", packed), parts[-1]]


def _one_fault_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A sound PNG of IHDR, tEXt, IDAT and IEND with one fault each."""
    parts = _parts(data)
    names = [part[4:8].decode() for part in parts]
    assert names == ["IHDR", "tEXt", "IDAT", "IEND"]
    for number, name in enumerate(names):
        others = parts[:number], parts[number + 1 :]
        yield f"{name} missing", b"".join([*others[0], *others[1]])
        yield f"{name} twice", b"".join([*others[0], parts[number], parts[number], *others[1]])
        broken = _broken_checksum(parts[number])
        yield f"{name} with a wrong checksum", b"".join([*others[0], broken, *others[1]])
        yield f"cut within {name}", b"".join([*others[0], parts[number][:-6]])
        long = struct.pack(">I", len(parts[number]) + 90) + parts[number][4:]
        yield f"{name} with a wrong length", b"".join([*others[0], long, *others[1]])
    packed = parts[2][8:-4]
    inflated = zlib.decompress(packed)
    variants = {
        "no checksum of the stream": packed[:-4],
        "a wrong checksum of the stream": packed[:-1] + bytes([packed[-1] ^ 1]),
        "bytes behind the stream": packed + b"more",
        "more rows than the size": zlib.compress(inflated + inflated[:91]),
        "fewer rows than the size": zlib.compress(inflated[:-91]),
        "one byte missing": zlib.compress(inflated[:-1]),
        "an unknown filter": zlib.compress(b"\x09" + inflated[1:]),
        "a preset dictionary": b"\x78\xbb" + packed[2:],
        "nothing": b"",
    }
    for what, stream in variants.items():
        yield what, b"".join(_with_pixel_data(parts, stream))
    ihdr = parts[0][8:-4]
    for at, value, what in ((10, 1, "compression"), (11, 1, "filtering"), (12, 2, "interlacing")):
        header = _chunk(b"IHDR", ihdr[:at] + bytes([value]) + ihdr[at + 1 :])
        yield f"unknown {what}", b"".join([header, *parts[1:]])
    yield "IDAT first", b"".join([parts[2], *parts[:2], parts[3]])
    plte = _chunk(b"PLTE", bytes(9))
    yield "PLTE after IDAT", b"".join([*parts[:3], plte, parts[3]])
    yield (
        "text within IDAT",
        b"".join(
            [
                *parts[:2],
                _chunk(b"IDAT", packed[:9]),
                parts[1],
                _chunk(b"IDAT", packed[9:]),
                parts[3],
            ]
        ),
    )
    yield "an unknown critical chunk", b"".join([*parts[:2], _chunk(b"ABCD", b"?"), *parts[2:]])


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_what_is_kept_is_what_the_reader_decodes_in_silence(
    mode: str, picture: Pixels, save: Callable[..., bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """Pillow forgives missing ends and checksums, OpenCV refuses them or prints a warning for
    each; whatever is stored must be read by OpenCV alone, without a line.
    """
    text = PngInfo()
    text.add_text("Title", "a picture")
    image = Image.fromarray(picture).convert(mode)
    data = save(image, "png", pnginfo=text)
    expected = np.asarray(image.convert("RGB"))
    kept: list[str] = []
    anew: list[str] = []
    refused: list[str] = []
    files = [(what, data[:8] + rest) for what, rest in _one_fault_files(data)]
    for what, file in [("no fault", data), *files]:
        try:
            encoded = transcode(file, ImageOptions(codec="png"))
        except ImageError:
            refused.append(what)
            continue
        (kept if "kept" in encoded.notes else anew).append(what)
        assert np.array_equal(png.decode(encoded.payload, 90, 60), expected), what
    assert capfd.readouterr().err == ""
    assert {"no fault", "tEXt missing", "tEXt with a wrong checksum", "text within IDAT"} <= {*kept}
    assert "IEND missing" in anew
    assert {"IDAT missing", "nothing", "fewer rows than the size"} <= {*refused}


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (5, 9), (8, 8), (33, 17)])
@pytest.mark.parametrize("interlaced", [False, True])
def test_sound_files_are_found_sound(
    mode: str, size: tuple[int, int], interlaced: bool, save: Callable[..., bytes]
) -> None:
    """In every colour type, interlaced too (the rows then are those of the passes)."""
    noise = np.random.default_rng(2).integers(0, 256, (size[1], size[0], 3), np.uint8)
    data = save(Image.fromarray(noise).convert(mode), "png")
    if interlaced:
        data = _interlaced(data, size)
    require_sound(data)
    for broken in (data[:-1], data + b"\0", data[:40] + bytes([data[40] ^ 1]) + data[41:]):
        with pytest.raises(ImageError):
            require_sound(broken)


def _interlaced(data: bytes, size: tuple[int, int]) -> bytes:
    """An interlaced PNG of the same colour type, black: rows of zeros in seven passes."""
    header = bytearray(_parts(data)[0][8:-4])
    header[12] = 1
    bits = header[8] * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[header[9]]
    rows = b""
    for left, top, across, down in (
        *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)),
        *((0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)),
    ):
        columns = len(range(left, size[0], across))
        if columns:
            rows += bytes(1 + -(-columns * bits // 8)) * len(range(top, size[1], down))
    return data[:8] + b"".join(
        [
            _chunk(b"IHDR", bytes(header)),
            *(part for part in _parts(data) if part[4:8] == b"PLTE"),
            _chunk(b"IDAT", zlib.compress(rows)),
            _chunk(b"IEND", b""),
        ]
    )
