from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from packer.errors import DamagedSample
from packer.imaging.native.region import Region
from packer.pack.opened import Pack
from packer.reader.images.stored import StoredPictures
from tests.packs import BuildPack


def payload_of(built: Any, sample: int) -> memoryview:
    return memoryview(bytearray(built.samples[sample].payloads["image"]))


def test_sizes_come_from_the_index(build_pack: BuildPack) -> None:
    for sizes, one in ((((8, 6),), (6, 8)), (((8, 6), (6, 8)), None)):
        built = build_pack([[3, 2]], sizes=sizes, name=str(len(sizes)))
        stored = StoredPictures(Pack(built.root))
        assert [stored.shape(sample) for sample in range(5)] == [
            pixels.shape[:2] for pixels in built.pixels
        ]
        assert stored.one_shape == one
        assert "one_shape" not in stored.__getstate__()  # two columns of the index, in each worker
        assert pickle.loads(pickle.dumps(stored)).one_shape == one


@pytest.mark.parametrize("codec", ["raw", "png"])
def test_a_part_is_decoded(build_pack: BuildPack, codec: str) -> None:
    built = build_pack([[2]], codec=codec)
    stored = StoredPictures(Pack(built.root))
    region, expected = Region(1, 2, 4, 5), built.pixels[1][1:5, 2:7]
    assert np.array_equal(stored.decode(payload_of(built, 1), 1, region), expected)
    out = np.zeros((4, 5, 3), np.uint8)
    stored.decode(payload_of(built, 1), 1, region, out)
    assert np.array_equal(out, expected)


def test_several_at_once_only_where_the_codec_can(build_pack: BuildPack) -> None:
    png = build_pack([[2]], codec="png", name="png")
    assert StoredPictures(Pack(png.root)).many_codec is None
    jpeg = StoredPictures(Pack(build_pack([[2]], codec="jpeg", name="jpeg").root))
    many: Any = jpeg.many_codec
    assert many is jpeg.codec


def test_damage_names_the_sample(build_pack: BuildPack) -> None:
    built = build_pack([[3]])
    stored, whole = StoredPictures(Pack(built.root)), Region(0, 0, 6, 8)
    for payload, words in ((None, "is not there"), (payload_of(built, 2)[:-9], "packer verify")):
        with pytest.raises(DamagedSample, match=rf"offset \d+, image of .*{words}") as found:
            stored.decode(payload, 2, whole)
        assert found.value.sample == 2
