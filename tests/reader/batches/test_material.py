from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packer.reader.images.layout import Layout
from packer.reader.transforms import CenterCrop, Normalize
from tests.materials import MakeMaterial
from tests.packs import BuildPack


@pytest.mark.parametrize(
    ("options", "sizes", "expected"),
    [
        ({}, [(8, 6)], Layout(4, 6, 8, "uint8")),
        ({}, [(8, 6), (5, 7)], None),
        ({"transform": [CenterCrop(4)]}, [(8, 6), (5, 7)], Layout(4, 4, 4, "uint8")),
        (
            {"transform": [CenterCrop(4), Normalize((0, 0, 0), (1, 1, 1))]},
            [(8, 6)],
            Layout(4, 4, 4, "float32"),
        ),
        ({"transform": [CenterCrop(4), np.mean]}, [(8, 6)], None),
        ({"decode": "bytes"}, [(8, 6)], None),
    ],
)
def test_where_pictures_can_go_straight_into_a_mini_batch(
    build_pack: BuildPack,
    make_material: MakeMaterial,
    options: Any,
    sizes: Any,
    expected: Layout | None,
) -> None:
    assert make_material(build_pack([[4]], sizes=sizes), 4, **options).layout() == expected


def test_without_pictures(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    assert make_material(build_pack([[4]]), 4, fields=("key",)).layout() is None
