from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from packer.imaging.native import fastresize, pieces, region
from packer.imaging.native.pieces import Piece, make_pieces
from packer.imaging.native.region import Region
from packer.types import Array, Pixels

needs_extension = pytest.mark.skipif(
    not pieces.NATIVE.is_built, reason="built without a compiler or libjpeg-turbo's headers"
)


#: Pillow's settings for some kinds of JPEGs; test_region.py has all.
KINDS: tuple[dict[str, Any], ...] = (
    {"subsampling": 2},
    {"subsampling": 1},
    {"subsampling": 0},
    {"progressive": True},
    {"restart_marker_rows": 1},
)


def encode(height: int, width: int, seed: int, kind: dict[str, Any] | None = None) -> bytes:
    """A JPEG of noise over patches of colour."""
    random = np.random.default_rng(seed)
    patches = random.integers(20, 236, (-(-height // 6), -(-width // 6), 3))
    patches = patches.repeat(6, axis=0).repeat(6, axis=1)[:height, :width]
    pixels = patches + random.integers(-20, 20, patches.shape)
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "jpeg", quality=85, **(kind or {}))
    return file.getvalue()


@st.composite
def rectangles(draw: st.DrawFn, height: int, width: int) -> tuple[int, int, int, int]:
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left))


def one_by_one(payload: bytes, piece: Piece, height: int, width: int) -> Pixels:
    """By the two extensions that take a picture at a time."""
    part = piece.region
    pixels = np.zeros((part.height, part.width, 3), np.uint8)
    assert region.decode_jpeg(payload, (piece.width, piece.height), part, pixels)
    return fastresize.resize(pixels, width, height, mirrored=piece.mirrored)


@needs_extension
@given(data=st.data(), height=st.integers(1, 70), width=st.integers(1, 70))
def test_as_if_each_were_decoded_and_then_resized(
    data: st.DataObject, height: int, width: int
) -> None:
    """Bit for bit, pictures of all sizes and kinds in one go, and nothing beside their places."""
    payloads: list[memoryview | None] = []
    wanted: list[Piece | None] = []
    for seed in range(data.draw(st.integers(1, 4))):
        high, wide = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 90))
        jpeg = encode(high, wide, seed, data.draw(st.sampled_from(KINDS)))
        divisor = data.draw(st.sampled_from([1, 1, 2, 4, 8]))
        corner_and_size = data.draw(rectangles(-(-high // divisor), -(-wide // divisor)))
        part = Region(*corner_and_size, divisor, data.draw(st.booleans()))
        payloads.append(memoryview(jpeg))
        wanted.append(Piece(wide, high, part, data.draw(st.booleans())))
    out = np.full((len(payloads) + 2, height, width, 3), 77, np.uint8)
    left = make_pieces(payloads, wanted, out[1:-1])
    for number, (payload, piece) in enumerate(zip(payloads, wanted, strict=True)):
        assert payload is not None and piece is not None
        same = (piece.region.height, piece.region.width) == (height, width)
        shrinks = piece.region.height > 16 * height or piece.region.width > 16 * width
        assert (number in left) == ((same and piece.mirrored) or shrinks)
        if number not in left:
            expected = one_by_one(bytes(payload), piece, height, width)
            assert np.array_equal(out[1 + number], expected)
    assert (out[0] == 77).all()
    assert (out[-1] == 77).all()


def some(count: int, height: int = 40, width: int = 60) -> list[memoryview | None]:
    return [memoryview(encode(height, width, seed)) for seed in range(count)]


PART = Piece(60, 40, Region(3, 5, 30, 44))


@needs_extension
def test_those_that_cannot_be_are_left_and_the_others_made() -> None:
    """Missing, cut short, damaged, of another size, outside of the picture, not wanted."""
    payloads = some(12)
    wanted: list[Piece | None] = [PART] * 12
    whole = bytes(payloads[0] or b"")
    payloads[1] = None
    payloads[2] = memoryview(whole[: len(whole) // 2])
    payloads[3] = memoryview(whole[: len(whole) // 2] + b"\xff\xd9")
    payloads[4] = memoryview(b"")
    payloads[5] = some(1, 60, 40)[0]
    wanted[6] = Piece(60, 40, Region(11, 5, 30, 44))
    wanted[7] = Piece(60, 40, Region(0, 0, 20, 24), True)
    wanted[8] = None
    wanted[9] = Piece(65_500, 65_500, Region(0, 0, 65_500, 65_500))
    wanted[10] = Piece(60, 40, Region(0, 0, 20, 24))
    out = np.full((12, 20, 24, 3), 77, np.uint8)
    assert make_pieces(payloads, wanted, out) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for number in (0, 10, 11):
        payload, piece = payloads[number], wanted[number]
        assert payload is not None and piece is not None
        assert np.array_equal(out[number], one_by_one(bytes(payload), piece, 20, 24))
    for number in (1, 7, 8, 9):  # not even begun
        assert (out[number] == 77).all()


@needs_extension
def test_none_at_all() -> None:
    assert make_pieces([], [], np.zeros((0, 20, 24, 3), np.uint8)) == []


@needs_extension
@given(data=st.data(), kind=st.sampled_from(KINDS), seed=st.integers(0, 20))
def test_hostile_payloads_are_made_or_left(
    data: st.DataObject, kind: dict[str, Any], seed: int
) -> None:
    """Any bytes changed anywhere: no crash, nothing written beside, its neighbours whole."""
    good = encode(32, 40, seed, kind)
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    piece = Piece(40, 32, Region(4, 8, 20, 20))
    out = np.zeros((3, 17, 23, 3), np.uint8)
    payloads = [memoryview(good), memoryview(bytes(broken)), memoryview(good)]
    left = make_pieces(payloads, [piece] * 3, out)
    assert set(left) <= {1}
    expected = one_by_one(good, piece, 17, 23)
    assert np.array_equal(out[0], expected)
    assert np.array_equal(out[2], expected)


@needs_extension
@pytest.mark.parametrize(
    "out",
    [
        np.zeros((1, 8, 8, 3), np.uint8),
        np.zeros((2, 8, 8, 4), np.uint8),
        np.zeros((2, 8, 8), np.uint8),
        np.zeros((2, 0, 8, 3), np.uint8),
        np.zeros((2, 8, 8, 3), np.float32),
        np.zeros((2, 8, 16, 3), np.uint8)[:, :, ::2],
        np.frombuffer(bytes(2 * 8 * 8 * 3), np.uint8).reshape(2, 8, 8, 3),
    ],
)
def test_room_that_cannot_be(out: Array) -> None:
    with pytest.raises((ValueError, BufferError)):
        make_pieces(some(2), [PART] * 2, out)


@needs_extension
@pytest.mark.parametrize(
    "piece",
    [
        Piece(0, 40, Region(0, 0, 8, 8)),
        Piece(60, -1, Region(0, 0, 8, 8)),
        Piece(60, 40, Region(-1, 0, 8, 8)),
        Piece(60, 40, Region(0, -1, 8, 8)),
        Piece(60, 40, Region(0, 0, 0, 8)),
        Piece(60, 40, Region(0, 0, 8, 70_000)),
        Piece(60, 40, Region(0, 0, 8, 8, 3)),
    ],
)
def test_pieces_that_cannot_be(piece: Piece) -> None:
    out = np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match="no JPEG has such a piece"):
        make_pieces(some(2), [PART, piece], out)
    assert not out.any()


@needs_extension
@pytest.mark.parametrize("numbers", [np.ones((2, 8), np.int32), np.ones((2, 9), np.int64)])
def test_numbers_of_another_kind(numbers: Array) -> None:
    native = pieces.NATIVE.module
    assert native is not None
    with pytest.raises(ValueError, match="9 int32"):
        native.make(some(2), numbers, np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(TypeError):
        native.make([b"x", "no bytes"], np.ones((2, 9), np.int32), np.zeros((2, 8, 8, 3), np.uint8))


@needs_extension
def test_threads_make_theirs_at_the_same_time() -> None:
    payloads, wanted = some(4), [PART] * 4
    expected = np.zeros((4, 20, 24, 3), np.uint8)
    assert not make_pieces(payloads, wanted, expected)
    wrong: list[int] = []

    def work(number: int) -> None:
        out = np.zeros((4, 20, 24, 3), np.uint8)
        for _ in range(50):
            out[...] = 0
            if make_pieces(payloads, wanted, out) or not np.array_equal(out, expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_the_extension_all_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces.NATIVE, "module", None)
    out: Any = np.zeros((2, 20, 24, 3), np.uint8)
    assert list(make_pieces(some(2), [PART] * 2, out)) == [0, 1]
    assert not out.any()
    assert not pieces.NATIVE.is_built
