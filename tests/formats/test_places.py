from __future__ import annotations

import numpy as np

from packer.formats._places import EndToEnd, PayloadPlaces, batch_bytes
from packer.types import Field, Sample

FIELDS = (
    Field("image", "image", "jpg", "jpeg"),
    Field("label", "label", "cls"),
    Field("extra", "bytes", "bin"),
)


def test_layout_is_absolute_and_keeps_absent_ones() -> None:
    places = PayloadPlaces(FIELDS)
    places.add_sample({"image": (0, 5), "extra": (5, 0)})
    places.end_batch(1, 5)
    places.end_batch(0, 0)
    places.add_sample({"image": (3, 4)})
    places.add_sample({"extra": (7, 1)})
    places.end_batch(2, 8)
    layout = places.layout([100, 777, 200])
    assert layout.batch_offset.tolist() == [100, 0, 200]  # an empty batch is nowhere
    assert layout.batch_bytes.tolist() == [5, 0, 8]
    assert {name: array.tolist() for name, array in layout.field_offset.items()} == {
        "image": [100, 203, -1],
        "extra": [105, -1, 207],
    }
    assert layout.field_size["extra"].tolist() == [0, -1, 1]
    assert layout.field_offset["image"].dtype == np.int64


def test_end_to_end_puts_fields_in_their_order() -> None:
    shard = EndToEnd(FIELDS)
    samples = [
        Sample(3, b"a", 1, 2, 2, {"extra": b"E", "image": b"IMG"}),
        Sample(5, b"bc", -1, 2, 2, {"image": b"J"}),
    ]
    assert batch_bytes(samples, FIELDS) == 5
    assert shard.add_batch(samples) == b"IMGEJ"
    columns = shard.columns()
    assert columns["image.offset"].tolist() == [0, 4]
    assert columns["extra.offset"].tolist() == [3, -1]
    assert columns["extra.size"].tolist() == [1, -1]
    assert columns["slot"].tolist() == [3, 5]
    assert columns["path_bytes"].tobytes() == b"abc"
    assert "image.crc32" not in columns
    assert shard.description("x")["fields"][0]["codec"] == "jpeg"
