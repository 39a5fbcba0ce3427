"""Runs the conformance tests on every codec in packer/codecs; a new file is picked up."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from packer import registry, testing
from packer.codecs import Codec, load_codec
from packer.imaging.heads.probe import probe
from packer.imaging.heads.sniff import EXTENSIONS, sniff
from packer.imaging.native.region import Region
from packer.settings.options import ImageOptions
from packer.types import Pixels
from tests.fixtures import Save

# Mean error of the smooth picture in levels, per codec that loses any; new codecs: none.
_LOSS = {"jpeg": 3.0, "webp": 4.0}


class TestCodecs(testing.CodecSuite):
    @pytest.fixture(params=registry.own_names("codecs"))
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def loss(self, name: str) -> float:
        return _LOSS.get(name, 0)

    def read_file(self, data: bytes) -> list[Pixels]:
        if data.startswith(b"\x93NUMPY"):
            return [np.load(io.BytesIO(data))]
        if sniff(data) not in EXTENSIONS:
            return []
        opencv = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        assert opencv is not None
        pillow = Image.open(io.BytesIO(data)).convert("RGB")
        return [np.asarray(pillow), opencv[..., ::-1].astype(np.uint8)]

    def test_metadata_and_what_follows_the_end_are_stripped(
        self, codec: Codec, options: ImageOptions, picture: Pixels, save: Save
    ) -> None:
        if not codec.KIND:
            assert codec.strip(b"pixels") == b"pixels"
            return
        exif = Image.Exif()
        exif[0x010E] = "SECRET PLACE"
        data = save(picture, codec.KIND, exif=exif, icc_profile=b"SECRET PROFILE" * 9)
        data += b"SECRET TAIL"
        stripped = codec.strip(data)
        assert b"SECRET" not in stripped
        plain = save(picture, codec.KIND)
        assert np.array_equal(codec.decode(stripped, 90, 60), codec.decode(plain, 90, 60))

    @pytest.mark.parametrize("kind", sorted(EXTENSIONS))
    def test_files_of_other_kinds_by_pillow_are_not_accepted(
        self,
        kind: str,
        codec: Codec,
        options: ImageOptions,
        picture: Pixels,
        save: Save,
    ) -> None:
        assert codec.accepts(probe(save(picture, kind)), options) is (kind == codec.KIND)

    @pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK", "I;16"])
    def test_what_would_not_decode_to_plain_rgb_is_not_accepted(
        self,
        mode: str,
        codec: Codec,
        options: ImageOptions,
        picture: Pixels,
        save: Save,
    ) -> None:
        if mode == "I;16":
            image = Image.fromarray(picture[..., 0].astype(np.uint16) * 257)
        else:
            image = Image.fromarray(picture).convert(mode)
        if mode == "RGBA":
            image.putalpha(100)
        kind = {"CMYK": "jpeg", "RGBA": "webp" if codec.KIND == "webp" else "png"}.get(mode, "png")
        assert not codec.accepts(probe(save(image, kind)), options)


@given(data=st.data())
def test_a_region_is_cut_out_of_the_whole_bit_for_bit(data: st.DataObject) -> None:
    """With and without room given, over all codecs, whatever is installed."""
    codec = load_codec(data.draw(st.sampled_from(registry.own_names("codecs"))))
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
