"""Conformance tests of a codec."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from packer import registry
from packer.codecs import Codec, ManyCodec, load_codec
from packer.errors import ImageError
from packer.imaging.heads.probe import probe
from packer.imaging.heads.sniff import EXTENSIONS, sniff
from packer.imaging.native.pieces import Piece
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels

#: Width and height of the test picture, in pixels.
WIDTH, HEIGHT = 90, 60
#: Longest side, in pixels, that a test encodes: 70,000 pixels are 210 kB.
_LONGEST = 70_000


def error_of(first: Pixels, second: Pixels) -> float:
    """Mean difference of two pictures of the same shape, in levels of 0 to 255."""
    assert first.shape == second.shape
    return float(np.abs(first.astype(int) - second.astype(int)).mean())


class CodecSuite:
    """What every codec must do; subclass it and name the codec.

    Attributes:
        NAME: Name of the codec, as in `--codec`.
        LOSS: Largest mean error of the test picture after decoding, in levels of 0 to 255; 0 for a
            lossless codec.
    """

    NAME: ClassVar[str] = ""
    LOSS: ClassVar[float] = 0.0

    @pytest.fixture
    def name(self) -> str:
        """Name of the codec."""
        return self.NAME

    @pytest.fixture
    def loss(self, name: str) -> float:
        """Largest mean error, see `LOSS`."""
        return self.LOSS

    @pytest.fixture
    def codec(self, name: str) -> Codec:
        """The codec."""
        return load_codec(name)

    @pytest.fixture
    def options(self, name: str) -> ImageOptions:
        """Default options of a picture stored by the codec."""
        return ImageOptions(codec=name)

    @pytest.fixture
    def picture(self) -> Pixels:
        """60×90×3 uint8: smooth colours, not square, no corner like another."""
        x, y = np.linspace(0, 1, WIDTH)[None, :], np.linspace(0, 1, HEIGHT)[:, None]
        layers = [255 * x + 0 * y, 255 * y + 0 * x, 255 * (1 - x) * (1 - y)]
        return np.stack(layers, -1).astype(np.uint8)

    def read_file(self, data: bytes) -> list[Pixels]:
        """What other libraries read in the file that a payload and its header are.

        Args:
            data: `codec.file_header(…)` and a payload.

        Returns:
            H×W×3 uint8 RGB, one a library; empty if there is none.
        """
        return []

    def test_attributes_are_valid(self, name: str, codec: Codec) -> None:
        assert registry.is_offered("codecs", name)
        assert codec.EXTENSION.lower().strip(".") == codec.EXTENSION != ""
        assert codec.KIND == "" or codec.KIND in EXTENSIONS
        assert isinstance(codec.FOUR_BYTES, bool)
        assert isinstance(codec.ONE_SIZE, bool)
        assert codec.MAX_SIDE >= 16_383
        assert set(codec.OPTIONS) <= {"quality", "subsampling", "reencode"}
        assert list(codec.DIVISORS) == sorted({1, *codec.DIVISORS})
        assert codec.FEATURE

    def test_size_estimate_and_description(self, codec: Codec) -> None:
        for quality in (1, 90, 100):
            options = ImageOptions(quality=quality)
            assert 0 < codec.bits_per_pixel(options) <= 200
            assert codec.bits_per_pixel(options) == codec.bits_per_pixel(options)
        text = codec.describe({"quality": 90, "subsampling": "4:2:0"})
        assert text == text.strip()
        assert "\n" not in text

    def test_round_trip(
        self, codec: Codec, options: ImageOptions, picture: Pixels, loss: float
    ) -> None:
        decoded = codec.decode(codec.encode(picture, options), WIDTH, HEIGHT)
        assert decoded.shape == (HEIGHT, WIDTH, 3)
        assert decoded.dtype == np.uint8
        assert decoded.flags.c_contiguous
        assert error_of(decoded, picture) <= loss

    @pytest.mark.parametrize("shape", [(1, 1), (1, 400), (400, 1), (7, 9)])
    def test_odd_sizes(self, shape: tuple[int, int], codec: Codec, options: ImageOptions) -> None:
        pixels = np.full((*shape, 3), 60, np.uint8)
        decoded = codec.decode(codec.encode(pixels, options), shape[1], shape[0])
        assert error_of(decoded, pixels) <= 3

    def test_equal_pixels_give_equal_bytes(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        first = codec.encode(picture, options)
        assert isinstance(first, bytes)
        assert first == codec.encode(picture.copy(), options)
        assert first != codec.encode(255 - picture, options)

    def test_read_only_pixels_are_encoded(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        locked = picture.copy()
        locked.flags.writeable = False
        assert codec.encode(locked, options) == codec.encode(picture, options)

    def test_payloads_may_be_views(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        around = memoryview(b"before" + payload + b"after")[6 : 6 + len(payload)]
        expected = codec.decode(payload, WIDTH, HEIGHT)
        assert np.array_equal(codec.decode(around, WIDTH, HEIGHT), expected)

    @pytest.mark.parametrize("size", [(60, 90), (91, 60), (90, 59), (45, 30), (1, 1), (9000, 6000)])
    def test_a_picture_of_another_size_is_refused(
        self, size: tuple[int, int], codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        if size == (HEIGHT, WIDTH) and len(payload) == picture.size:
            pytest.skip("bare pixels do not tell rows from columns")
        with pytest.raises(ImageError) as caught:
            codec.decode(payload, *size)
        assert caught.value.reason == "bad-size"

    @pytest.mark.parametrize("part", [0, 1, 2])
    def test_a_cut_payload_is_refused(
        self, part: int, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        for decode in (codec.decode, codec.decode_strictly):
            with pytest.raises(ImageError):
                decode(payload[: len(payload) * part // 3], WIDTH, HEIGHT)

    @pytest.mark.parametrize("seed", range(8))
    def test_a_region_is_cut_out_of_the_whole_bit_for_bit(self, seed: int, codec: Codec) -> None:
        draw = np.random.default_rng(seed)
        height, width = draw.integers(1, 61, 2).tolist()
        pixels = draw.integers(0, 256, (height, width, 3), np.uint8)
        payload = codec.encode(pixels, ImageOptions())
        top, left = int(draw.integers(height)), int(draw.integers(width))
        high, wide = int(draw.integers(height - top)) + 1, int(draw.integers(width - left)) + 1
        region = Region(top, left, high, wide)
        expected = codec.decode(payload, width, height)[top : top + high, left : left + wide]
        assert np.array_equal(codec.decode_region(payload, width, height, region), expected)
        places = np.full((3, high, wide, 3), 7, np.uint8)
        assert codec.decode_region(payload, width, height, region, places[1]) is not None
        assert np.array_equal(places[1], expected)
        assert (places[::2] == 7).all()

    def test_regions_of_a_reduced_picture(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        for divisor in codec.DIVISORS:
            whole = Region(0, 0, -(-HEIGHT // divisor), -(-WIDTH // divisor), divisor)
            part = Region(1, 2, 4, 5, divisor)
            expected = codec.decode_region(payload, WIDTH, HEIGHT, whole)
            blocks = picture[: HEIGHT // divisor * divisor, : WIDTH // divisor * divisor].reshape(
                HEIGHT // divisor, divisor, WIDTH // divisor, divisor, 3
            )
            inside = expected[: HEIGHT // divisor, : WIDTH // divisor]
            assert error_of(inside, blocks.mean(axis=(1, 3)).astype(np.uint8)) < 5
            found = codec.decode_region(payload, WIDTH, HEIGHT, part)
            assert np.array_equal(found, part.cut(expected))

    @pytest.mark.parametrize("region", [Region(0, 0, HEIGHT, WIDTH), Region(3, 5, 20, 30)])
    def test_regions_of_damaged_payloads_are_refused(
        self, region: Region, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        out = np.zeros((region.height, region.width, 3), np.uint8)
        for size in ((91, 60), (90, 61), (120, 90)):
            with pytest.raises(ImageError) as caught:
                codec.decode_region(payload, *size, region, out)
            assert caught.value.reason == "bad-size"
        for part in (0, 1, 2):
            cut = payload[: len(payload) * part // 3]
            with pytest.raises(ImageError):
                codec.decode_region(cut, WIDTH, HEIGHT, region, out)

    def test_several_pictures_in_one_call(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        if not isinstance(codec, ManyCodec) or not codec.at_once(alike=True):
            pytest.skip("the codec decodes one picture at a time")
        payload = memoryview(codec.encode(picture, options))
        region = Region(3, 5, 20, 30)
        piece = Piece(WIDTH, HEIGHT, region, mirrored=False)
        out = np.zeros((2, 20, 30, 3), np.uint8)
        left = codec.decode_pieces([payload, payload], [piece, piece], out)
        expected = codec.decode_region(payload, WIDTH, HEIGHT, region)
        for number in {0, 1} - set(left):
            assert np.array_equal(out[number], expected)
        assert 0 in codec.decode_pieces([None], [piece], out[:1])

    def test_header_and_payload_are_a_file(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        header = codec.file_header(WIDTH, HEIGHT)
        assert isinstance(header, bytes)
        decoded = codec.decode(payload, WIDTH, HEIGHT)
        for found in self.read_file(header + payload):
            assert error_of(found, decoded) < 1

    def test_its_own_payloads_are_stripped_of_nothing_that_counts(
        self, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        payload = codec.encode(picture, options)
        decoded = codec.decode(payload, WIDTH, HEIGHT)
        if codec.KIND:
            assert sniff(payload) == codec.KIND
            assert codec.accepts(probe(payload), options)
        stripped = codec.strip(payload)
        assert len(stripped) <= len(payload)
        assert np.array_equal(codec.decode(stripped, WIDTH, HEIGHT), decoded)
        assert np.array_equal(codec.decode_strictly(stripped, WIDTH, HEIGHT), decoded)
        assert codec.strip(stripped) == stripped

    @pytest.mark.parametrize("other", [*registry.own_names("codecs")])
    def test_files_of_other_kinds_are_not_accepted(
        self, other: str, codec: Codec, options: ImageOptions, picture: Pixels
    ) -> None:
        file = load_codec(other)
        if not file.KIND:
            pytest.skip(f"the payloads of {other} are no files")
        head = probe(file.encode(picture, ImageOptions(codec=other)))
        assert codec.accepts(head, options) is (file.KIND == codec.KIND)

    def test_too_long_sides_are_refused(self, codec: Codec, options: ImageOptions) -> None:
        if codec.MAX_SIDE > _LONGEST:
            pytest.skip("longer than any picture that is converted")
        pixels = np.zeros((1, codec.MAX_SIDE + 1, 3), np.uint8)
        with pytest.raises(ImageError) as caught:
            codec.encode(pixels, options)
        assert caught.value.reason == "bad-size"
        assert codec.encode(pixels[:, 1:], options)

    def test_a_fourth_byte_is_ignored(self, codec: Codec, options: ImageOptions) -> None:
        if not codec.FOUR_BYTES:
            pytest.skip("the codec takes three bytes per pixel")
        pixels = np.random.default_rng(5).integers(0, 256, (21, 34, 4), np.uint8)
        three = np.ascontiguousarray(pixels[..., :3])
        assert codec.encode(pixels, options) == codec.encode(three, options)
