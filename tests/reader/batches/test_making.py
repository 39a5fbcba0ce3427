from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packer.errors import DamagedSample
from packer.imaging.native import cutting
from packer.reader.batches.making import Maker, Wanted
from packer.reader.loading.sheets import Layout
from packer.reader.transforms import CenterCrop, Normalize
from packer.types import Array
from tests.materials import MakeMaterial
from tests.packs import BuildPack


def made(maker: Maker, wanted: Wanted, sheet: Array | None) -> dict[str, Any]:
    draft = maker.read(wanted, sheet)
    for number in range(draft.pictures):
        maker.decode(draft, number)
    return maker.finished(draft)


def test_pictures_go_to_the_sheet(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    built = build_pack([[4], [3]])
    maker = Maker(make_material(built, 3))
    sheet = np.zeros((3, 6, 8, 3), np.uint8)
    for step, samples in enumerate(([0, 1, 2], [3, 4, 5], [6])):
        columns = made(maker, Wanted(0, 0, step), sheet)
        assert columns["image"] == len(samples)
        assert columns["key"] == [built.keys[sample] for sample in samples]
        assert columns["label"].tolist() == [built.labels[sample] for sample in samples]
        assert np.array_equal(sheet[: len(samples)], [built.pixels[sample] for sample in samples])
    assert made(maker, Wanted(1, 2, 0), sheet)["key"] == built.keys[2:5]


def test_pictures_as_planes_and_by_themselves(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[4]])
    sheet = np.zeros((4, 3, 6, 8), np.uint8)
    made(Maker(make_material(built, 4, planes=True)), Wanted(0, 0, 0), sheet)
    assert np.array_equal(sheet[2].transpose(1, 2, 0), built.pixels[2])
    columns = made(Maker(make_material(built, 4)), Wanted(0, 0, 0), None)
    assert np.array_equal(columns["image"][2].permute(1, 2, 0), built.pixels[2])


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


def test_a_damaged_one_is_replaced_or_an_error(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[4]])
    sheet = np.zeros((4, 6, 8, 3), np.uint8)
    for on_error in ("skip", "raise"):
        maker = Maker(make_material(built, 4, on_error=on_error))
        draft = maker.read(Wanted(0, 0, 0), sheet)
        draft.columns["image"][1] = draft.columns["image"][1][:-1]
        with pytest.raises(DamagedSample, match=r"class1/1\.v1\.jpg") as caught:
            maker.decode(draft, 1)
        if on_error == "raise":
            with pytest.raises(DamagedSample):
                maker.remade(draft, caught.value)
            continue
        with pytest.warns(UserWarning, match="skipped"):
            columns = maker.finished(maker.remade(draft, caught.value))
        assert columns["key"] == [built.keys[sample] for sample in (0, 2, 2, 3)]
        assert np.array_equal(sheet, [built.pixels[sample] for sample in (0, 2, 2, 3)])


def test_a_run_of_pictures_in_one_go(build_pack: BuildPack, make_material: MakeMaterial) -> None:
    built = build_pack([[6]])
    if not cutting.NATIVE.is_built:
        pytest.skip("built without a compiler")
    sheet = np.zeros((6, 6, 8, 3), np.uint8)
    maker = Maker(make_material(built, 6))
    draft = maker.read(Wanted(0, 0, 0), sheet)
    assert maker.at_once
    assert not maker.decode_several(draft, range(2, 5))
    assert np.array_equal(sheet[2:5], built.pixels[2:5])
    assert not sheet[:2].any() and not sheet[5:].any()
    draft.columns["image"][3] = draft.columns["image"][3][1:]
    assert maker.decode_several(draft, range(2, 5)) == [2, 3, 4]
    with pytest.raises(DamagedSample) as caught:
        maker.decode(draft, 3)
    assert caught.value.sample == 3


def test_runs_that_go_picture_by_picture(
    build_pack: BuildPack, make_material: MakeMaterial
) -> None:
    built = build_pack([[6]])
    planes = np.zeros((6, 3, 6, 8), np.uint8)
    for material, sheet in (
        (make_material(built, 6, planes=True), planes),
        (make_material(built, 6), None),
        (make_material(built, 6, transform=[np.array]), None),
    ):
        maker = Maker(material)
        draft = maker.read(Wanted(0, 0, 0), sheet)
        assert list(maker.decode_several(draft, range(1, 6))) == [1, 2, 3, 4, 5]
